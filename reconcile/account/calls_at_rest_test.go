package account

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// emptyAccount is an account without anything, which counts requests by action.
type emptyAccount struct {
	mu    sync.Mutex
	calls map[string]int
}

func (a *emptyAccount) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	action := r.Form.Get("Action")
	a.mu.Lock()
	a.calls[action]++
	a.mu.Unlock()
	fmt.Fprintf(w, `<%[1]sResponse><%[1]sResult></%[1]sResult></%[1]sResponse>`, action)
}

// costs is the page that states how many requests the daemon makes.
const costs = "../../docs/explanation/cost-and-footprint.md"

// The numbers on the page: of one comparison, of one lookup of the role, and of an hour.
var (
	ofComparison = regexp.MustCompile(`\| every 10 minutes \(.*?\): (\d+) requests`)
	ofRole       = regexp.MustCompile(`; (\d+) with the six policies of Karpenter's guide`)
	ofAnHour     = regexp.MustCompile(`(\d+) requests an hour`)
)

// TestCallsAtRest: in an hour at rest the instances are compared six times, with as many requests as the page states, and the
// total of the page is that of these and of the lookup of the role. (TestGrantRequests of provision/cloud counts the latter, and
// TestPreflightChecker how often it is made.)
func TestCallsAtRest(t *testing.T) {
	account := &emptyAccount{calls: map[string]int{}}
	server := httptest.NewServer(account)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_CONFIG_FILE": t.TempDir() + "/none", "AWS_SHARED_CREDENTIALS_FILE": t.TempDir() + "/none",
	} {
		t.Setenv(name, value)
	}
	// A new client has a full budget of requests, as after ten minutes.
	dial := func(ctx context.Context) (InstanceCloud, error) {
		return cloud.New(ctx, cloud.Options{Region: "eu-west-1"})
	}
	checker := &InstanceChecker{}
	began := time.Now()
	for minute := range 60 {
		drift := checker.See(t.Context(), InstanceLook{
			Cloud: dial, Reader: clusterOf(t), Cluster: "demo",
			Now: began.Add(time.Duration(minute) * time.Minute), Every: 10 * time.Minute, Live: plan.Live{},
			Set: &render.Set{Objects: []render.Object{{Ref: render.Ref{Kind: render.NodePool, Name: "general"}}}},
		}, &finding.Findings{})
		if drift != nil && (drift.Failure != "" || drift.Count > 0) {
			t.Fatalf("minute %d: %+v", minute, drift)
		}
		answered(t, checker)
	}
	total := 0
	for _, action := range slices.Sorted(maps.Keys(account.calls)) {
		t.Logf("%3d %s", account.calls[action], action)
		total += account.calls[action]
	}
	text, err := os.ReadFile(costs)
	if err != nil {
		t.Fatal(err)
	}
	number := func(of *regexp.Regexp) int {
		found := of.FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s does not contain %s", costs, of)
		}
		n, err := strconv.Atoi(string(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if want := 6 * number(ofComparison); total != want {
		t.Errorf("six comparisons take %d requests, and %s states %d", total, costs, want)
	}
	if want := total + number(ofRole); number(ofAnHour) != want {
		t.Errorf("%s states %d requests an hour, and the sum is %d", costs, number(ofAnHour), want)
	}
}

// answered waits until a comparison is complete.
func answered(t *testing.T, checker *InstanceChecker) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		checker.mu.Lock()
		asking := checker.asking
		checker.mu.Unlock()
		if !asking {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the comparison does not end")
		}
		<-time.After(10 * time.Millisecond)
	}
}
