package rollout_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
)

const (
	none    = `{"status":"success","data":{"resultType":"vector","result":[]}}`
	one     = `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"job":"web"},"value":[1767225600,"1"]}]}}`
	secret  = "s3cr3t-t0k3n-0f-prom"
	problem = "problem cannot be queried ("
)

var prod = types.NamespacedName{Namespace: "plumbline-system", Name: "prod"}

// answered queries until there is an answer.
func answered(t *testing.T, a *rollout.HoldChecker, with rollout.Secrets, of v1alpha1.RolloutHold, now time.Time) rollout.HoldAnswer {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		before := time.Now()
		answer := a.Answers(t.Context(), with, []v1alpha1.RolloutHold{of}, now)
		if took := time.Since(before); took > 2*time.Second {
			t.Fatalf("a pass was held up for %s", took)
		}
		if !answer.Unasked && answer.Next.Equal(now.Add(rollout.Every)) {
			return answer
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer: %+v", answer)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// TestAnswers shows answers of hosts that are healthy, slow, broken and down.
func TestAnswers(t *testing.T) {
	says := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	cases := map[string]struct {
		host    http.HandlerFunc
		alerts  bool
		gone    bool
		ignores bool
		want    string
	}{
		"no result":           {host: says(200, none)},
		"a result":            {host: says(200, one), want: "problem: the query has a result"},
		"a scalar of 0":       {host: says(200, `{"status":"success","data":{"resultType":"scalar","result":[1,"0"]}}`)},
		"a scalar":            {host: says(200, `{"status":"success","data":{"resultType":"scalar","result":[1,"0.2"]}}`), want: "problem: the query is 0.2"},
		"a matrix":            {host: says(200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`), want: problem + `the result of the query has type "matrix", but must be an instant vector or a scalar)`},
		"a mistake":           {host: says(400, `{"status":"error","errorType":"bad_data","error":"parse error"}`), want: problem + "it responds with 400 Bad Request: parse error)"},
		"no alert":            {host: says(200, `[]`), alerts: true},
		"alerts":              {host: says(200, `[{"labels":{"alertname":"B"}},{"labels":{"alertname":"A"}},{"labels":{"alertname":"A"}}]`), alerts: true, want: "problem: alerts active: A, B"},
		"broken":              {host: says(500, "<html>"), want: problem + "it responds with 500 Internal Server Error)"},
		"broken, and ignored": {host: says(500, ""), ignores: true},
		"garbage":             {host: says(200, "\x00<html>"), want: problem + "its response is not Prometheus JSON"},
		"garbage for alerts":  {host: says(200, `{"status":"success"}`), alerts: true, want: problem + "its response is not Alertmanager JSON"},
		"too much":            {host: says(200, strings.Repeat(" ", 1<<20+1)), want: problem + "its response exceeds 1048576 bytes"},
		"slow":                {host: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, want: problem + "no answer within 200ms)"},
		"gone":                {host: says(200, none), gone: true, want: problem + "dial tcp"},
		"elsewhere":           {host: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }, want: problem + "it redirects to another address"},
		"it repeats the token": {host: func(w http.ResponseWriter, r *http.Request) {
			says(403, `{"error":"not `+r.Header.Get("Authorization")+`"}`)(w, r)
		}, want: problem + "it responds with 403 Forbidden: not Bearer"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			host := httptest.NewServer(test.host)
			defer host.Close()
			if test.gone {
				host.Close()
			}
			of := v1alpha1.RolloutHold{
				Name: "problem", URL: host.URL, Query: "up == 0", Timeout: &metav1.Duration{Duration: 200 * time.Millisecond},
				Unreachable: v1alpha1.UnreachableHold, SecretRef: &meta.LocalObjectReference{Name: "prometheus"},
			}
			if name != "slow" {
				of.Timeout = nil
			}
			if test.alerts {
				of.Query, of.Alerts = "", []string{`severity="page"`}
			}
			if test.ignores {
				of.Unreachable = v1alpha1.UnreachableIgnore
			}
			answer := answered(t, &rollout.HoldChecker{}, opened(t, "127.0.0.1"), of, time.Unix(1000, 0))
			if test.want == "" && answer.Held != "" || !strings.HasPrefix(answer.Held, test.want) {
				t.Errorf("got  %q\nwant %q", answer.Held, test.want)
			}
			if ignored := test.ignores && strings.HasPrefix(answer.Unreachable, "problem cannot be queried: "); ignored != (answer.Unreachable != "") || test.ignores != ignored {
				t.Errorf("unreachable: %q", answer.Unreachable)
			}
			if strings.Contains(answer.Held+answer.Unreachable, secret) {
				t.Errorf("it repeats the token: %q", answer.Held)
			}
		})
	}
}

// opened returns a Secret that may be sent to a host.
func opened(t *testing.T, host string) rollout.Secrets {
	t.Helper()
	object := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: "prometheus", Annotations: map[string]string{v1alpha1.HostsAnnotation: host}},
		Data:       map[string][]byte{"token": []byte(secret)},
	}
	return rollout.Secrets{Reader: fake.NewClientBuilder().WithObjects(object).Build(), NodeSync: prod}
}

// TestWhatIsAsked shows that the documented paths are queried, with the Secret if the host is allowed, and otherwise
// not at all.
func TestWhatIsAsked(t *testing.T) {
	asked := make(chan *http.Request, 10)
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		fmt.Fprint(w, map[bool]string{true: `[]`, false: none}[strings.Contains(r.URL.Path, "v2")])
	}))
	defer host.Close()
	query := v1alpha1.RolloutHold{Name: "q", URL: host.URL + "/prometheus/", Query: `up{job="web"} == 0`, SecretRef: &meta.LocalObjectReference{Name: "prometheus"}}
	answered(t, &rollout.HoldChecker{}, opened(t, "127.0.0.1"), query, time.Unix(1000, 0))
	if r := <-asked; r.URL.Path != "/prometheus/api/v1/query" || r.URL.Query().Get("query") != query.Query || r.Header.Get("Authorization") != "Bearer "+secret {
		t.Errorf("asked %s with %q", r.URL, r.Header.Get("Authorization"))
	}
	answer := answered(t, &rollout.HoldChecker{}, opened(t, "prometheus.example.com"), query, time.Unix(1000, 0))
	if !strings.Contains(answer.Held, "secret prometheus is not used for 127.0.0.1") || len(asked) > 0 {
		t.Errorf("a Secret for another host: %q, %d requests", answer.Held, len(asked))
	}
	alerts := v1alpha1.RolloutHold{Name: "a", URL: host.URL, Alerts: []string{`severity="page"`, `team=~"a|b"`}}
	answered(t, &rollout.HoldChecker{}, rollout.Secrets{NodeSync: prod}, alerts, time.Unix(1000, 0))
	if r := <-asked; r.URL.Path != "/api/v2/alerts" || len(r.URL.Query()["filter"]) != 2 || r.URL.Query().Get("silenced") != "false" || r.Header.Get("Authorization") != "" {
		t.Errorf("asked %s", r.URL)
	}
}

// TestAskedAgain shows that a query is repeated after a while and not before, and at once if the NodeSync has changed
// it. The last answer counts meanwhile.
func TestAskedAgain(t *testing.T) {
	body := make(chan string, 10)
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, <-body) }))
	defer host.Close()
	of := v1alpha1.RolloutHold{Name: "q", URL: host.URL, Query: "a"}
	a, now := &rollout.HoldChecker{}, time.Unix(1000, 0)
	with := rollout.Secrets{NodeSync: prod}
	body <- one
	if answer := answered(t, a, with, of, now); answer.Held == "" {
		t.Fatal("it does not hold")
	}
	if answer := a.Answers(t.Context(), with, []v1alpha1.RolloutHold{of}, now.Add(rollout.Every-1)); answer.Held == "" || answer.Unasked {
		t.Errorf("before it is time: %+v", answer)
	}
	now = now.Add(rollout.Every)
	if answer := a.Answers(t.Context(), with, []v1alpha1.RolloutHold{of}, now); answer.Held == "" || !answer.Next.Before(now.Add(rollout.Every)) {
		t.Errorf("while it is asked: %+v", answer)
	}
	body <- none
	if answer := answered(t, a, with, of, now); answer.Held != "" {
		t.Errorf("afterwards: %+v", answer)
	}
	of.Query = "b"
	if answer := a.Answers(t.Context(), with, []v1alpha1.RolloutHold{of}, now); !answer.Unasked {
		t.Errorf("another question: %+v", answer)
	}
	body <- none
}
