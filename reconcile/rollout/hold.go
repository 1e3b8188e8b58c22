package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/internal/trust"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/redact"
)

const (
	// defaultTimeout is the default timeout of one query.
	defaultTimeout = 5 * time.Second
	// maxAnswer is the maximum size of an answer.
	maxAnswer = 1 << 20
)

// credentials are those of a query; the zero value is none.
type credentials struct {
	Token, Username, Password string
	// CA contains certificate authorities of the host, in PEM, in addition to the system's.
	CA []byte
}

// queryCondition sends one query: words describe the condition if it is true, and are empty if it is not.
func queryCondition(ctx context.Context, of v1alpha1.RolloutHold, with credentials) (words string, err error) {
	timeout := defaultTimeout
	if of.Timeout != nil {
		timeout = of.Timeout.Duration
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	transport, trusted := trust.Transport(with.CA)
	if !trusted {
		return "", errors.New("ca.crt of its Secret has no certificate in PEM")
	}
	defer transport.CloseIdleConnections()
	body, err := fetch(ctx, &http.Client{Transport: transport, CheckRedirect: refuse}, of, with)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "", fmt.Errorf("no answer within %s", timeout)
	case err != nil:
		return "", err
	case of.Query != "":
		return ofPrometheus(body)
	}
	return ofAlertmanager(body)
}

var errRedirect = errors.New("it redirects to another address, and redirects are not followed: set that address in the NodeSync")

func refuse(*http.Request, []*http.Request) error { return errRedirect }

// address returns the URL of a query: https://prometheus.io/docs/prometheus/latest/querying/api/ and
// https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml.
func address(of v1alpha1.RolloutHold) string {
	base := strings.TrimRight(of.URL, "/")
	if of.Query != "" {
		return base + "/api/v1/query?" + url.Values{"query": {of.Query}, "limit": {"10"}}.Encode()
	}
	return base + "/api/v2/alerts?" + url.Values{
		"filter": of.Alerts, "active": {"true"}, "silenced": {"false"}, "inhibited": {"false"}, "unprocessed": {"false"},
	}.Encode()
}

func fetch(ctx context.Context, caller *http.Client, of v1alpha1.RolloutHold, with credentials) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address(of), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	switch {
	case with.Token != "":
		request.Header.Set("Authorization", "Bearer "+with.Token)
	case with.Username != "":
		request.SetBasicAuth(with.Username, with.Password)
	}
	response, err := caller.Do(request)
	if err != nil {
		var at *url.Error // its address contains the query
		if errors.As(err, &at) {
			err = at.Err
		}
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("its response exceeds %d bytes: narrow the query", maxAnswer)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it responds with %s%s", response.Status, reasonIn(body))
	}
	return body, nil
}

// reasonIn returns the message of an unsuccessful answer; empty if it has none that can be parsed.
func reasonIn(body []byte) string {
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		return ""
	}
	return ": " + said.Error
}

// ofPrometheus parses Prometheus' answer to an instant query.
func ofPrometheus(body []byte) (words string, err error) {
	var answer struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			Type   string          `json:"resultType"`
			Result json.RawMessage `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", fmt.Errorf("its response is not Prometheus JSON: %w", err)
	}
	if answer.Status != "success" {
		return "", fmt.Errorf("the query fails: %s", answer.Error)
	}
	switch answer.Data.Type {
	case "vector":
		var series []struct {
			Metric map[string]string `json:"metric"`
		}
		if err := json.Unmarshal(answer.Data.Result, &series); err != nil {
			return "", fmt.Errorf("its response is not Prometheus JSON: %w", err)
		}
		if len(series) > 0 {
			return "the query has a result", nil
		}
		return "", nil
	case "scalar":
		var value []any
		if err := json.Unmarshal(answer.Data.Result, &value); err != nil || len(value) != 2 {
			return "", errors.New("its response is not Prometheus JSON: a scalar is a time and a value")
		}
		if value[1] != "0" {
			return fmt.Sprintf("the query is %v", value[1]), nil
		}
		return "", nil
	}
	return "", fmt.Errorf("the result of the query has type %q, but must be an instant vector or a scalar", answer.Data.Type)
}

// ofAlertmanager parses Alertmanager's list of alerts.
func ofAlertmanager(body []byte) (words string, err error) {
	var alerts []struct {
		Labels map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(body, &alerts); err != nil {
		return "", fmt.Errorf("its response is not Alertmanager JSON: %w", err)
	}
	var names []string
	for _, alert := range alerts {
		names = append(names, alert.Labels["alertname"])
	}
	if len(names) == 0 {
		return "", nil
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 3 {
		return fmt.Sprintf("alerts %s are active", shortlist.Join(names, 3, ", ")), nil
	}
	return fmt.Sprintf("%s active: %s", map[bool]string{true: "alert", false: "alerts"}[len(names) == 1], strings.Join(names, ", ")), nil
}

const (
	// Every is how often a condition is queried during a rollout.
	Every = 15 * time.Second
	// holdSoon is how long after a query a reconcile looks for its answer.
	holdSoon = time.Second
	// maxFailure is the maximum length of a failure's message, in bytes.
	maxFailure = 256
)

// HoldChecker queries the conditions of one NodeSync in the background, and keeps the last answer to each. The zero
// value is ready to use.
type HoldChecker struct {
	mu    sync.Mutex
	known map[string]*holdState
}

// holdState is the state of one condition.
type holdState struct {
	of      v1alpha1.RolloutHold
	asked   time.Time
	asking  bool
	answers bool // there was an answer, or a failure
	words   string
	failure string
}

// HoldAnswer is the result of the conditions of a NodeSync.
type HoldAnswer struct {
	// Held names those that are true; empty if none is. Unasked reports that one has not answered yet. Unreachable names
	// those that cannot be queried, and whose unreachable is Ignore.
	Held        string
	Unasked     bool
	Unreachable string
	// Next is when to check again.
	Next time.Time
}

// Answers returns the last ones to the conditions of a NodeSync. Those that are due are queried again, in goroutines
// that a reconcile does not wait for; they end at their timeouts.
func (a *HoldChecker) Answers(ctx context.Context, with Secrets, holds []v1alpha1.RolloutHold, now time.Time) HoldAnswer {
	if len(holds) == 0 {
		a.Forget()
		return HoldAnswer{}
	}
	answer := HoldAnswer{Next: now.Add(Every)}
	var held, unreachable []string
	for _, of := range holds {
		s := a.due(ctx, of, with, now)
		if s.asking {
			answer.Next = now.Add(holdSoon)
		}
		switch {
		case !s.answers:
			answer.Unasked = true
		case s.failure != "" && of.Unreachable != v1alpha1.UnreachableIgnore:
			held = append(held, fmt.Sprintf("%s cannot be queried (%s), and its unreachable is Hold", of.Name, s.failure))
		case s.failure != "":
			unreachable = append(unreachable, fmt.Sprintf("%s cannot be queried: %s", of.Name, s.failure))
		case s.failure == "" && s.words != "":
			held = append(held, fmt.Sprintf("%s: %s", of.Name, s.words))
		}
	}
	slices.Sort(held)
	slices.Sort(unreachable)
	answer.Held, answer.Unreachable = strings.Join(held, "; "), strings.Join(unreachable, "; ")
	return answer
}

// Forget drops all answers.
func (a *HoldChecker) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.known)
}

// due returns the state of a condition, and starts its query if that is due.
func (a *HoldChecker) due(ctx context.Context, of v1alpha1.RolloutHold, with Secrets, now time.Time) holdState {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.known[of.Name]
	if s == nil || !equality.Semantic.DeepEqual(s.of, of) {
		s = &holdState{of: of}
		if a.known == nil {
			a.known = map[string]*holdState{}
		}
		a.known[of.Name] = s
	}
	if s.asking || !s.asked.IsZero() && now.Before(s.asked.Add(Every)) && !now.Before(s.asked) {
		return *s
	}
	s.asked, s.asking = now, true
	go a.query(context.WithoutCancel(ctx), s, with)
	return *s
}

func (a *HoldChecker) query(ctx context.Context, s *holdState, secrets Secrets) {
	opening, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	with, err := secrets.open(opening, s.of)
	words, hidden := "", redact.Credentials(with.Token, with.Password)
	if err == nil {
		words, err = queryCondition(ctx, s.of, with)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s.asking, s.answers, s.words, s.failure = false, true, hidden.Hide(words), ""
	if err != nil {
		s.failure = finding.Bounded(hidden.Hide(err.Error()), maxFailure)
	}
}

// Secrets reads credentials of conditions from Secrets of the NodeSync's namespace.
type Secrets struct {
	// Reader reads past the cache.
	Reader client.Reader
	// Grants decide to which hosts a Secret may be sent.
	Grants   grant.Policy
	NodeSync types.NamespacedName
}

// open reads the credentials of a condition.
func (s Secrets) open(ctx context.Context, of v1alpha1.RolloutHold) (credentials, error) {
	if of.SecretRef == nil {
		return credentials{}, nil
	}
	secret := &corev1.Secret{}
	if err := s.Reader.Get(ctx, types.NamespacedName{Namespace: s.NodeSync.Namespace, Name: of.SecretRef.Name}, secret); err != nil {
		return credentials{}, fmt.Errorf("read secret %s: %w", of.SecretRef.Name, err)
	}
	if err := s.Grants.Check(secret, grant.Use{NodeSync: s.NodeSync.Name, Address: of.URL}); err != nil {
		return credentials{}, err
	}
	return credentials{
		Token: string(secret.Data["token"]), Username: string(secret.Data["username"]), Password: string(secret.Data["password"]),
		CA: secret.Data["ca.crt"],
	}, nil
}
