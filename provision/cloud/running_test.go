package cloud

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
)

// TestRunningIsAskedOnce: instances that EC2 has shown in the last minutes are not asked for again,
// new ones are by themselves, and one that it has not shown is asked for again after a minute.
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

// TestManyRunningAreAskedByTag: of a large pool all instances come with one question. The SDK may
// send it again, as it does where reading an answer fails.
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

// TestSelectorsThatAreDenied: the error names the action that is to be allowed; trouble that passes
// has its type, and time is bounded.
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
		_, _ = io.ReadAll(r.Body) // else the server does not see that the caller goes
		<-r.Context().Done()
	})
	began := time.Now()
	_, err := connect(t, hanging, Options{Attempts: 1, Timeout: 50 * time.Millisecond}).SecurityGroups(t.Context(), class)
	if !errors.As(err, &unreachable) || time.Since(began) > 5*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}
