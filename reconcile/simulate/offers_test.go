package simulate_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
)

// TestNodesWithoutAPriceAreInNeitherSum checks that they are counted instead: one that stays and one that is
// terminated. m5.nano is in no list, because EC2 has no such type.
func TestNodesWithoutAPriceAreInNeitherSum(t *testing.T) {
	a, class := poolNamed(t, "a", "", any64), classNamed(t, "default")
	c := fleet(a, class)
	node(c, "a", "priced", "1500m")
	node(c, "a", "unpriced", "1500m")
	leaving := node(c, "a", "leaving", "1500m")
	for i := range c.NodeClaims {
		if c.NodeClaims[i].Name != "priced" {
			c.NodeClaims[i].Labels[corev1.LabelInstanceTypeStable] = "m5.nano"
		}
	}
	for name, touched := range map[string][]types.UID{"none ends": nil, "one ends": {leaving}} {
		out := simulated(t, c, c.Definitions, touched, "m5.large 2 8", "m5.nano 64 256")
		after := 0.096
		for _, n := range out.New {
			if slices.Contains(n.Types, "m5.nano") {
				t.Errorf("%s: a type without a price would come: %+v", name, out.New)
			}
			after += n.Lowest * float64(n.Count)
		}
		if diff := cmp.Diff(simulate.Cost{Before: 0.096, Lowest: after, Highest: after, Unpriced: 2}, out.Cost, close); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if ends := len(touched) > 0; ends != (after > 0.1) {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// TestPricesOfAnotherRegionAreSaidToBe checks this if Karpenter's tables contain none for the cluster's region.
func TestPricesOfAnotherRegionAreSaidToBe(t *testing.T) {
	for region, want := range map[string]string{"us-east-1": "", "eu-west-1": "us-east-1"} {
		catalog := catalogOf(t, "m5.large 2 8")
		catalog.Region = region
		o, err := offers.New(t.Context(), catalog, offers.Defaults())
		if err != nil {
			t.Fatal(err)
		}
		c := fleet(poolNamed(t, "a", "", any64), classNamed(t, "default"))
		node(c, "a", "staying", "1")
		out, err := simulate.Run(t.Context(), c, commitOf(c.Definitions, nil), o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(simulate.Cost{Before: 0.096, Lowest: 0.096, Highest: 0.096, PricesOf: want}, out.Cost, close); diff != "" {
			t.Errorf("%s (-want +got):\n%s", region, diff)
		}
	}
}
