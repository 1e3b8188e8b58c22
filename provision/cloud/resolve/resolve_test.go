package resolve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
)

// TestAliases checks that an alias resolves to the AMIs in SSM's parameters for its family, version and the cluster's
// version of Kubernetes, latest first, with the nodes for which they are.
func TestAliases(t *testing.T) {
	const eks = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/"
	for name, c := range map[string]struct {
		alias      string
		parameters map[string]string
		want       string
	}{
		"latest": {"al2023@latest", map[string]string{
			eks + "x86_64/standard/recommended/image_id": "ami-amd", eks + "arm64/standard/recommended/image_id": "ami-arm", eks + "x86_64/nvidia/recommended/image_id": "ami-gpu",
		}, "ami-gpu ami-arm ami-amd"},
		"a version":               {"al2023@v20250904", map[string]string{eks + "x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.36-v20250904/image_id": "ami-amd"}, "ami-amd"},
		"bottlerocket":            {"bottlerocket@latest", map[string]string{"/aws/service/bottlerocket/aws-k8s-1.36/arm64/latest/image_id": "ami-arm"}, "ami-arm"},
		"none":                    {"al2023@v2099", nil, "AWS has no AMI that amiSelectorTerms"},
		"no AL2 for this version": {"al2@latest", nil, "AL2 aliases are no longer supported on EKS 1.33+"},
	} {
		t.Run(name, func(t *testing.T) {
			aws := newFake()
			aws.parameters = c.parameters
			found, err := aws.resolver().AMIs(t.Context(), class(awsv1.AMISelectorTerm{Alias: c.alias}), "1.36")
			got := ids(found)
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, c.want) && !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestUnsupportedAlias checks that Karpenter's refusal of an alias for a Kubernetes version has a type of its own, so that
// it does not count as a failed query.
func TestUnsupportedAlias(t *testing.T) {
	for _, c := range []struct {
		alias, kubernetes string
		is                bool
	}{
		{"al2@latest", "1.33", true}, {"al2@latest", "1.32", false}, {"al2023@latest", "1.33", false}, {"windows2025@latest", "1.34", true},
	} {
		_, err := newFake().resolver().AMIs(t.Context(), class(awsv1.AMISelectorTerm{Alias: c.alias}), c.kubernetes)
		var unsupported *UnsupportedError
		if errors.As(err, &unsupported) != c.is || c.is && !strings.HasPrefix(err.Error(), "alias of EC2NodeClass/default: ") {
			t.Errorf("%s on %s: %v", c.alias, c.kubernetes, err)
		}
	}
}

// TestAges checks that images have the time at which they were made.
func TestAges(t *testing.T) {
	aws := newFake()
	found, err := aws.resolver().Images(t.Context(), class(awsv1.AMISelectorTerm{ID: "ami-arm"}), "1.36")
	if err != nil || len(found) != 1 || !found[0].Created.Equal(aws.now.AddDate(0, 0, -29)) {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestSelectorsOfAMIs checks terms by ID, name, tag and parameter, and which of two AMIs for the same nodes Karpenter
// prefers.
func TestSelectorsOfAMIs(t *testing.T) {
	for name, c := range map[string]struct {
		terms  []awsv1.AMISelectorTerm
		asked  string
		want   string
		change func(*fake)
	}{
		"by ID":                      {terms: []awsv1.AMISelectorTerm{{ID: "ami-arm"}}, asked: "image-id=ami-arm state=available", want: "ami-arm"},
		"by parameter":               {terms: []awsv1.AMISelectorTerm{{SSMParameter: "/mine"}}, change: func(f *fake) { f.parameters = map[string]string{"/mine": "ami-amd"} }, asked: "image-id=ami-amd state=available", want: "ami-amd"},
		"by name":                    {terms: []awsv1.AMISelectorTerm{{Name: "mine-*"}}, asked: "name=mine-* state=available owners=self,amazon"},
		"by name and owner":          {terms: []awsv1.AMISelectorTerm{{Name: "mine-*", Owner: "111122223333"}}, asked: "name=mine-* state=available owners=111122223333"},
		"by tags":                    {terms: []awsv1.AMISelectorTerm{{Tags: map[string]string{"b": "*", "a": "x"}}}, asked: "state=available tag-key=b tag:a=x"},
		"the newer":                  {terms: []awsv1.AMISelectorTerm{{ID: "ami-amd"}, {ID: "ami-amd2"}}, want: "ami-amd2"},
		"one that is not deprecated": {terms: []awsv1.AMISelectorTerm{{ID: "ami-amd"}, {ID: "ami-amd2"}}, want: "ami-amd", change: func(f *fake) { f.deprecate("ami-amd2", f.now.Add(-time.Hour)) }},
		"one that will be":           {terms: []awsv1.AMISelectorTerm{{ID: "ami-amd"}, {ID: "ami-amd2"}}, want: "ami-amd2", change: func(f *fake) { f.deprecate("ami-amd2", f.now.Add(time.Hour)) }},
		"only a deprecated one":      {terms: []awsv1.AMISelectorTerm{{ID: "ami-amd"}}, want: "ami-amd", change: func(f *fake) { f.deprecate("ami-amd", f.now.Add(-time.Hour)) }},
	} {
		t.Run(name, func(t *testing.T) {
			aws := newFake()
			if c.change != nil {
				c.change(aws)
			}
			found, err := aws.resolver().AMIs(t.Context(), class(c.terms...), "1.36")
			if c.asked != "" {
				if diff := cmp.Diff(c.asked, strings.TrimSpace(aws.images)); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
			}
			if c.want != "" && (err != nil || ids(found) != c.want) {
				t.Errorf("%s, %v, want %s", ids(found), err, c.want)
			}
		})
	}
}

// TestFaultsMakeAnAnswerUnavailable checks this even for errors that Karpenter ignores: its result from the rest is not
// what it finds when AWS responds.
func TestFaultsMakeAnAnswerUnavailable(t *testing.T) {
	denied := errors.New("AWS denies it")
	var empty *EmptyError
	latest := class(awsv1.AMISelectorTerm{Alias: "al2023@latest"})
	for name, c := range map[string]struct {
		change func(*fake)
		is     func(error) bool
	}{
		"one parameter of five": {func(f *fake) { f.refuse = map[string]error{"ssm arm64/standard": denied} }, func(err error) bool { return errors.Is(err, denied) }},
		"images":                {func(f *fake) { f.refuse = map[string]error{"images": denied} }, func(err error) bool { return errors.Is(err, denied) }},
		"nothing": {func(f *fake) { f.all = nil }, func(err error) bool {
			return errors.As(err, &empty) && strings.Contains(err.Error(), "amiSelectorTerms of EC2NodeClass/default")
		}},
		"a date that is none": {func(f *fake) { f.date = "yesterday" }, func(err error) bool { return err != nil && strings.Contains(err.Error(), "cannot be read") }},
	} {
		t.Run(name, func(t *testing.T) {
			aws := newFake()
			aws.published()
			c.change(aws)
			if found, err := aws.resolver().AMIs(t.Context(), latest, "1.36"); !c.is(err) {
				t.Errorf("%v, %v", ids(found), err)
			}
		})
	}
}

// TestNothingIsLogged checks that the logs of Karpenter's library do not end up in the caller's log.
func TestNothingIsLogged(t *testing.T) {
	logged := ""
	ctx := logr.NewContext(t.Context(), funcr.New(func(_, args string) { logged += args }, funcr.Options{Verbosity: 9}))
	r := newFake().resolver()
	c := class(awsv1.AMISelectorTerm{SSMParameter: "/none"})
	c.Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{Name: "nodes"}}
	c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: "subnet-b"}}
	_, _ = r.AMIs(ctx, c, "1.36")
	_, _ = r.SecurityGroups(ctx, c)
	_, _ = r.Subnets(ctx, c)
	if logged != "" {
		t.Errorf("logged %s", logged)
	}
}

// TestNetworks checks that subnets and groups are queried by ID, name and tag, and that an empty result is reported;
// reservations may be empty.
func TestNetworks(t *testing.T) {
	aws := newFake()
	r := aws.resolver()
	c := class()
	c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: "subnet-b"}, {Tags: map[string]string{"a": "*"}}}
	c.Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{Name: "nodes"}}
	c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}}
	if found, err := r.Subnets(t.Context(), c); err != nil || !cmp.Equal(found, []string{"subnet-a", "subnet-b"}) {
		t.Errorf("subnets %v, %v", found, err)
	}
	if found, err := r.SecurityGroups(t.Context(), c); err != nil || !cmp.Equal(found, []string{"sg-a"}) {
		t.Errorf("groups %v, %v", found, err)
	}
	if found, err := r.Reservations(t.Context(), c); err != nil || len(found) != 0 {
		t.Errorf("reservations %v, %v", found, err)
	}
	c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"none": "x"}}}
	var empty *EmptyError
	if found, err := r.Subnets(t.Context(), c); !errors.As(err, &empty) {
		t.Errorf("subnets %v, %v", found, err)
	}
}

// TestAnAnswerHoldsForAWhile checks that a query is sent once, whoever makes it and in whichever order of its filters,
// and again when the answer is old; errors and empty answers are valid for less time.
func TestAnAnswerHoldsForAWhile(t *testing.T) {
	for name, c := range map[string]struct {
		terms  []awsv1.AMISelectorTerm
		refuse error
		holds  time.Duration
	}{
		"good":     {terms: []awsv1.AMISelectorTerm{{ID: "ami-amd"}}, holds: answerValidFor},
		"empty":    {terms: []awsv1.AMISelectorTerm{{Tags: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}}}, holds: errorValidFor},
		"an error": {terms: []awsv1.AMISelectorTerm{{ID: "ami-amd"}}, refuse: errors.New("denied"), holds: errorValidFor},
	} {
		t.Run(name, func(t *testing.T) {
			aws := newFake()
			aws.refuse = map[string]error{"images": c.refuse}
			r := aws.resolver()
			ask := func() int {
				for range 5 {
					_, _ = r.AMIs(t.Context(), class(c.terms...), "1.36")
				}
				return aws.asked
			}
			if n := ask(); n != 1 {
				t.Errorf("asked %d times, want 1", n)
			}
			aws.now = aws.now.Add(c.holds - time.Second)
			if n := ask(); n != 1 {
				t.Errorf("asked %d times before it is old, want 1", n)
			}
			aws.now = aws.now.Add(time.Second)
			if n := ask(); n != 2 {
				t.Errorf("asked %d times, want 2", n)
			}
		})
	}
}

// TestAPassThatEndsIsNoAnswer checks that a query whose caller is gone is sent again.
func TestAPassThatEndsIsNoAnswer(t *testing.T) {
	aws := newFake()
	aws.refuse = map[string]error{"images": fmt.Errorf("ask: %w", context.Canceled)}
	r := aws.resolver()
	for range 2 {
		_, _ = r.AMIs(t.Context(), class(awsv1.AMISelectorTerm{ID: "ami-amd"}), "1.36")
	}
	if aws.asked != 2 {
		t.Errorf("asked %d times, want 2", aws.asked)
	}
}

// TestTheBudget checks that AWS gets a limited number of queries at once and then one every two seconds; over that, the
// error is returned immediately, is the same until the budget reopens, and says when.
func TestTheBudget(t *testing.T) {
	aws := newFake()
	r := aws.resolver()
	asked := 0
	ask := func() error {
		asked++
		_, err := r.AMIs(t.Context(), class(awsv1.AMISelectorTerm{ID: fmt.Sprintf("ami-%d", asked)}), "1.36")
		return err
	}
	var busy *BusyError
	for range 100 {
		if err := ask(); errors.As(err, &busy) {
			break
		}
	}
	if aws.asked != atOnce || busy == nil {
		t.Fatalf("%d questions at once, want %d; %v", aws.asked, atOnce, busy)
	}
	first := busy.Error()
	aws.now = aws.now.Add(30 * time.Second)
	if err := ask(); err == nil || err.Error() != first || aws.asked != atOnce {
		t.Errorf("after 30 s: %v, want %s", err, first)
	}
	aws.now = busy.Again
	if err := ask(); errors.As(err, &busy) || aws.asked != atOnce+1 {
		t.Errorf("when it opens: %v", err)
	}
	began := aws.now
	for aws.now.Sub(began) < time.Hour {
		_ = ask()
		aws.now = aws.now.Add(time.Second)
	}
	if most := int(time.Hour.Seconds()*perSecond) + atOnce; aws.asked-atOnce > most {
		t.Errorf("%d questions in an hour, want %d at most", aws.asked-atOnce, most)
	}
}
