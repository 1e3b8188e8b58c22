package cloud

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInstances(t *testing.T) {
	world := map[string]row{
		"i-1":       {zone: "eu-west-1a", state: "running", cluster: "demo", pool: "batch"},
		"i-2":       {zone: "eu-west-1b", state: "terminated", cluster: "demo", pool: "batch"},
		"i-3":       {zone: "eu-west-1a", state: "running", cluster: "demo", pool: "general"},
		"i-foreign": {zone: "eu-west-1a", state: "running", cluster: "other", pool: "batch"},
		"i-bare":    {zone: "eu-west-1c", state: "shutting-down"},
		"i-system":  {zone: "eu-west-1a", state: "running", cluster: "demo"},
		"i-lost":    {zone: "eu-west-1a", state: "running", cluster: "lost", claimed: true},
		"i-4":       {zone: "eu-west-1b", state: "pending", cluster: "large", pool: "a"},
		"i-5":       {zone: "eu-west-1b", state: "running", cluster: "large", pool: "b"},
		"i-6":       {zone: "eu-west-1b", state: "stopping", cluster: "large", pool: "c"},
		"i-7":       {zone: "eu-west-1b", state: "stopped", cluster: "large", pool: "d"},
		"i-8":       {zone: "eu-west-1b", state: "shutting-down", cluster: "large", pool: "a"},
		"i-9":       {zone: "eu-west-1b", state: "terminated", cluster: "large", pool: "e"},
	}
	batch := []Instance{
		{ID: "i-1", Zone: "eu-west-1a", State: "running", Pool: "batch"},
		{ID: "i-2", Zone: "eu-west-1b", State: "terminated", Pool: "batch"},
	}
	cases := map[string]struct {
		query    Query
		pageSize int
		want     []Instance
		requests int
	}{
		"by tags":           {query: Query{Cluster: "demo", Pools: []string{"batch"}}, want: batch, requests: 1},
		"by tags, in pages": {query: Query{Cluster: "demo", Pools: []string{"batch"}}, pageSize: 1, want: batch, requests: 2},
		"an ID that the tags answer is not asked for": {query: Query{Cluster: "demo", Pools: []string{"batch"}, ProviderIDs: []string{"aws:///eu-west-1a/i-1"}}, want: batch, requests: 1},
		"an ID without tags is": {
			query:    Query{Cluster: "demo", Pools: []string{"batch"}, ProviderIDs: []string{"aws:///eu-west-1c/i-bare"}},
			want:     append(batch[:2:2], Instance{ID: "i-bare", Zone: "eu-west-1c", State: "shutting-down"}),
			requests: 2,
		},
		"an ID that EC2 does not know hides no other": {
			query:    Query{ProviderIDs: []string{"aws:///eu-west-1a/i-3", "aws:///eu-west-1a/i-unknown"}},
			want:     []Instance{{ID: "i-3", Zone: "eu-west-1a", State: "running", Pool: "general"}},
			requests: 1,
		},
		"all pools of the cluster, without what has ended and what no pool has": {
			query:    Query{Cluster: "demo", AllPools: true},
			want:     []Instance{batch[0], {ID: "i-3", Zone: "eu-west-1a", State: "running", Pool: "general"}},
			requests: 1,
		},
		"all pools, in pages, in each state before the end": {
			query: Query{Cluster: "large", AllPools: true}, pageSize: 2,
			want: []Instance{
				{ID: "i-4", Zone: "eu-west-1b", State: "pending", Pool: "a"},
				{ID: "i-5", Zone: "eu-west-1b", State: "running", Pool: "b"},
				{ID: "i-6", Zone: "eu-west-1b", State: "stopping", Pool: "c"},
				{ID: "i-7", Zone: "eu-west-1b", State: "stopped", Pool: "d"},
				{ID: "i-8", Zone: "eu-west-1b", State: "shutting-down", Pool: "a"},
			},
			requests: 3,
		},
		"one that has lost the tag of its pool": {query: Query{Cluster: "lost", AllPools: true}, want: []Instance{{ID: "i-lost", Zone: "eu-west-1a", State: "running"}}, requests: 1},
		"all pools of a cluster that has none":  {query: Query{Cluster: "empty", AllPools: true}, want: []Instance{}, requests: 1},
		"nothing asked, nothing sent":           {want: []Instance{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			account := &account{instances: world, pageSize: c.pageSize}
			got, err := connect(t, account, Options{}).Instances(t.Context(), c.query)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("instances (-want +got):\n%s", diff)
			}
			if account.questions() != c.requests {
				t.Errorf("%d requests, want %d", account.questions(), c.requests)
			}
		})
	}
}

// EC2 takes no more than 200 values in a filter.
func TestInstancesInBatches(t *testing.T) {
	world, ids := map[string]row{}, []string(nil)
	for n := range 450 {
		id := fmt.Sprintf("i-%03d", n)
		world[id] = row{zone: "eu-west-1a", state: "running"}
		ids = append(ids, "aws:///eu-west-1a/"+id)
	}
	account := &account{instances: world}
	got, err := connect(t, account, Options{}).Instances(t.Context(), Query{ProviderIDs: ids})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 450 || account.questions() != 3 {
		t.Errorf("%d instances in %d requests, want 450 in 3", len(got), account.questions())
	}
	for _, form := range account.asked {
		if form.Has("Filter.1.Value.201") {
			t.Error("a filter with more than 200 values was sent")
		}
	}
}

// EC2 counts the values of all filters of a call together: "The maximum number of
// filter values specified on a single call is 200".
func TestFilterValuesOfACall(t *testing.T) {
	var pools []string
	for n := range 200 {
		pools = append(pools, fmt.Sprintf("pool-%03d", n))
	}
	account := &account{}
	if _, err := connect(t, account, Options{}).Instances(t.Context(), Query{Cluster: "demo", Pools: pools}); err != nil {
		t.Fatal(err)
	}
	for _, form := range account.asked {
		values := 0
		for name := range form {
			if strings.Contains(name, ".Value.") {
				values++
			}
		}
		if values > 200 {
			t.Errorf("a call has %d values in its filters, and EC2 takes 200", values)
		}
	}
}

// A provider ID that is not EC2's keeps no other from being asked about. That its
// absence proves nothing is for those who ask.
func TestInstancesOfAForeignProvider(t *testing.T) {
	account := &account{instances: map[string]row{"i-1": {zone: "eu-west-1a", state: "running"}}}
	got, err := connect(t, account, Options{}).Instances(t.Context(), Query{ProviderIDs: []string{"kwok://node", "", "fake", "aws:////i-2", "aws:///eu-west-1a/i-1"}})
	if err != nil || len(got) != 1 || got[0].ID != "i-1" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestParseProviderID(t *testing.T) {
	cases := map[string]struct {
		zone, id string
		fails    bool
	}{
		"aws:///eu-west-1a/i-0123456789abcdef0": {zone: "eu-west-1a", id: "i-0123456789abcdef0"},
		"aws:///us-west-2-lax-1a/i-1":           {zone: "us-west-2-lax-1a", id: "i-1"},
		"":                                      {fails: true},
		"i-1":                                   {fails: true},
		"aws:///eu-west-1a/":                    {fails: true},
		"aws:///eu-west-1a/i-1/x":               {fails: true},
		"gce://project/zone/name":               {fails: true},
	}
	for providerID, c := range cases {
		t.Run(providerID, func(t *testing.T) {
			zone, id, err := ParseProviderID(providerID)
			if zone != c.zone || id != c.id || (err != nil) != c.fails {
				t.Errorf("got %q, %q, %v", zone, id, err)
			}
		})
	}
}
