package cloud

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
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
		"and those that EC2 has terminated": {
			query:    Query{Cluster: "demo", AllPools: true, Terminated: true},
			want:     []Instance{batch[0], batch[1], {ID: "i-3", Zone: "eu-west-1a", State: "running", Pool: "general"}},
			requests: 1,
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

// TestInstancesInBatches checks that a filter has at most 200 values, EC2's maximum.
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

// TestFilterValuesOfACall checks the total number of values of all filters of a call: "The maximum number of filter
// values specified on a single call is 200".
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

// TestInstancesOfAForeignProvider checks that a provider ID that is not EC2's does not prevent queries about others.
// The caller must know that its absence proves nothing.
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

func idsOf(instances []Instance) []string {
	var ids []string
	for _, i := range instances {
		ids = append(ids, i.ID)
	}
	return ids
}

// TestADisruptedZone checks that, if EC2 fails each call that names no instance or one in that zone, the instances of
// the other zones are known; the query by tags stays unanswered.
func TestADisruptedZone(t *testing.T) {
	account := &account{instances: map[string]row{
		"i-a1": {zone: "eu-west-1a", state: "running", cluster: "demo", pool: "batch"},
		"i-b1": {zone: "eu-west-1b", state: "running", cluster: "demo", pool: "batch"},
		"i-b2": {zone: "eu-west-1b", state: "terminated", cluster: "demo", pool: "batch"},
	}}
	account.refuse = func(form url.Values) (string, string) {
		if ids := namedIn(form); len(ids) == 0 || slices.Contains(ids, "i-a1") {
			return "InternalError", "An internal error has occurred"
		}
		return "", ""
	}
	client := connect(t, account, Options{Attempts: 1})
	ids := []string{"aws:///eu-west-1a/i-a1", "aws:///eu-west-1b/i-b1", "aws:///eu-west-1b/i-b2"}
	for name, query := range map[string]Query{
		"by tags and IDs": {Cluster: "demo", Pools: []string{"batch"}, ProviderIDs: ids},
		"by IDs":          {Cluster: "demo", ProviderIDs: ids},
	} {
		found, err := client.Instances(t.Context(), query)
		if err == nil || !strings.Contains(err.Error(), "InternalError") {
			t.Errorf("%s: err = %v: the answer is said to be whole", name, err)
		}
		if diff := cmp.Diff([]string{"i-b1", "i-b2"}, idsOf(found)); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
	healthy, err := client.Instances(t.Context(), Query{Cluster: "demo", ProviderIDs: ids[1:]})
	if err != nil || len(healthy) != 2 {
		t.Errorf("IDs of another zone alone: %v, %v", healthy, err)
	}
}

// TestAnIDThatEC2Refuses checks that it does not prevent queries about others, whether EC2 names it or not, and
// whichever query contains it.
func TestAnIDThatEC2Refuses(t *testing.T) {
	const odd = "i-xyz"
	for name, c := range map[string]struct{ code, message string }{
		"malformed":         {"InvalidInstanceID.Malformed", `Invalid id: "i-xyz"`},
		"not found":         {"InvalidInstanceID.NotFound", "The instance IDs 'i-xyz' do not exist"},
		"it does not say":   {"InvalidInstanceID.Malformed", "Invalid id"},
		"written otherwise": {"InvalidInstanceId.NotFound", "The instance ID 'i-xyz' does not exist"},
	} {
		for _, outage := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, outage %t", name, outage), func(t *testing.T) {
				account := &account{instances: batchOf(5)}
				account.refuse = func(form url.Values) (string, string) {
					switch named := namedIn(form); {
					case outage && len(named) == 0:
						return "Unavailable", "The service is unavailable"
					case slices.Contains(append(named, filtered(form)...), odd):
						return c.code, c.message
					}
					return "", ""
				}
				query := Query{Cluster: "demo", ProviderIDs: []string{"aws:///eu-west-1a/" + odd}}
				for id := range account.instances {
					query.ProviderIDs = append(query.ProviderIDs, "aws:///eu-west-1a/"+id)
				}
				found, err := connect(t, account, Options{Attempts: 1}).Instances(t.Context(), query)
				if err != nil || len(found) != 5 {
					t.Errorf("%v, %v", idsOf(found), err)
				}
			})
		}
	}
}

// TestAStrayAnswer checks that a response about an instance that was not queried is an error, and does not prove that
// the queried one is gone.
func TestAStrayAnswer(t *testing.T) {
	account := &account{instances: batchOf(2)}
	account.refuse = func(url.Values) (string, string) {
		return "InvalidInstanceID.NotFound", "The instance ID 'i-other' does not exist"
	}
	var answer *AnswerError
	_, err := connect(t, account, Options{Attempts: 1}).Instances(t.Context(), Query{ProviderIDs: []string{"aws:///eu-west-1a/i-000"}})
	if !errors.As(err, &answer) {
		t.Errorf("got %T %v", err, err)
	}
}

// TestNoCredentialsAreAskedForOnce checks that an error that applies to all queries is returned after one.
func TestNoCredentialsAreAskedForOnce(t *testing.T) {
	account := &account{fail: func(string) (int, string, string) { return 403, "UnauthorizedOperation", "You are not authorized" }}
	_, err := connect(t, account, Options{Attempts: 1, Timeout: time.Second}).Instances(t.Context(),
		Query{Cluster: "demo", Pools: []string{"batch"}, ProviderIDs: []string{"aws:///eu-west-1a/i-1"}})
	var denied *DeniedError
	if !errors.As(err, &denied) || account.questions() != 1 {
		t.Errorf("%v, %d questions", err, account.questions())
	}
}

// TestRunningIsAskedOnce checks that instances that EC2 has returned in the last minutes are not queried again, that
// new ones are queried separately, and that one that EC2 did not return is queried again after a minute.
func TestRunningIsAskedOnce(t *testing.T) {
	a := &account{instances: map[string]row{
		"i-1": {zone: "eu-west-1a", state: "running", cluster: "demo", pool: "batch"},
		"i-2": {zone: "eu-west-1a", state: "running", cluster: "demo", pool: "batch"},
	}}
	client := connect(t, a, Options{})
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	client.now = func() time.Time { return now }
	for i, c := range []struct {
		after            time.Duration
		ids              []string
		shown, questions int
	}{
		{0, []string{"i-1"}, 1, 1},
		{time.Minute, []string{"i-1"}, 1, 1},
		{0, []string{"i-1", "i-2"}, 2, 2},
		{0, []string{"i-1", "i-3"}, 1, 3},
		{30 * time.Second, []string{"i-1", "i-3"}, 1, 3},
		{30 * time.Second, []string{"i-1", "i-3"}, 1, 4},
		{3 * time.Minute, []string{"i-1"}, 1, 5},
	} {
		now = now.Add(c.after)
		query := Query{Cluster: "demo", Pools: []string{"batch"}}
		for _, id := range c.ids {
			query.ProviderIDs = append(query.ProviderIDs, "aws:///eu-west-1a/"+id)
		}
		shown, err := client.Running(t.Context(), query)
		if err != nil || len(shown) != c.shown || a.questions() != c.questions {
			t.Errorf("%d: %d shown, want %d, after %d questions, want %d: %v", i, len(shown), c.shown, a.questions(), c.questions, err)
		}
	}
}

// TestManyRunningAreAskedByTag checks that all instances of a large pool take one query. The SDK may repeat it, for
// example if reading a response fails.
func TestManyRunningAreAskedByTag(t *testing.T) {
	a := &account{instances: map[string]row{}}
	query := Query{Cluster: "demo", Pools: []string{"batch"}}
	for i := range 300 {
		id := fmt.Sprintf("i-%d", i)
		a.instances[id] = row{zone: "eu-west-1a", state: "running", cluster: "demo", pool: "batch"}
		query.ProviderIDs = append(query.ProviderIDs, "aws:///eu-west-1a/"+id)
	}
	shown, err := connect(t, a, Options{}).Running(t.Context(), query)
	if err != nil || len(shown) != 300 {
		t.Errorf("%d shown, %v", len(shown), err)
	}
	for _, asked := range a.all() {
		if asked.Get("Filter.2.Name") != "tag:karpenter.sh/nodepool" || asked.Get("Filter.2.Value.1") != "batch" || asked.Has("NextToken") {
			t.Errorf("asked %v", asked)
		}
	}
}

// TestSelectorsThatAreDenied checks that the error names the action to allow, that temporary errors have their type,
// and that the time is limited.
func TestSelectorsThatAreDenied(t *testing.T) {
	class := &awsv1.EC2NodeClass{}
	class.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: "subnet-1"}}
	class.Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{ID: "sg-1"}}
	var denied *DeniedError
	var throttled *ThrottledError
	var unreachable *UnreachableError
	for name, c := range map[string]struct {
		status int
		code   string
		is     func(error) bool
	}{
		"denied":    {http.StatusForbidden, "UnauthorizedOperation", func(err error) bool { return errors.As(err, &denied) && denied.Action == "ec2:DescribeSubnets" }},
		"throttled": {http.StatusServiceUnavailable, "RequestLimitExceeded", func(err error) bool { return errors.As(err, &throttled) }},
		"broken":    {http.StatusInternalServerError, "InternalError", func(err error) bool { return errors.As(err, &unreachable) }},
	} {
		a := &account{fail: func(action string) (int, string, string) {
			if action == "DescribeSubnets" {
				return c.status, c.code, "not today"
			}
			return 0, "", ""
		}}
		if _, err := connect(t, a, Options{Attempts: 1}).Subnets(t.Context(), class); !c.is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	hanging := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // otherwise the server does not notice that the caller is gone
		<-r.Context().Done()
	})
	began := time.Now()
	_, err := connect(t, hanging, Options{Attempts: 1, Timeout: 50 * time.Millisecond}).SecurityGroups(t.Context(), class)
	if !errors.As(err, &unreachable) || time.Since(began) > 5*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}
