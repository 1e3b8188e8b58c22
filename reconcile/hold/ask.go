package hold

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
	"time"

	"github.com/plumbline-dev/plumbline/internal/trust"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

const (
	// defaultTimeout is that of one question.
	defaultTimeout = 5 * time.Second
	// maxAnswer is the longest answer that is read.
	maxAnswer = 1 << 20
)

// credentials are what a question is asked with; the zero value asks with none.
type credentials struct {
	Token, Username, Password string
	// CA are authorities of the host, in PEM, beside the system's.
	CA []byte
}

// ask asks one question: words say that the condition holds, and are empty where it does not.
func ask(ctx context.Context, of v1alpha1.RolloutHold, with credentials) (words string, err error) {
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

var errRedirect = errors.New("it redirects to another address, which is not followed: name that address in the NodeSync")

func refuse(*http.Request, []*http.Request) error { return errRedirect }

// address is the URL of a question: https://prometheus.io/docs/prometheus/latest/querying/api/ and
// https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml.
func address(of v1alpha1.RolloutHold) string {
	base := strings.TrimRight(of.URL, "/")
	if of.Query != "" {
		return base + "/api/v1/query?" + url.Values{"query": {of.Query}, "limit": {"10"}}.Encode()
	}
	return base + "/api/v2/alerts?" + url.Values{"filter": of.Alerts, "active": {"true"}, "silenced": {"false"}, "inhibited": {"false"}, "unprocessed": {"false"}}.Encode()
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
		var at *url.Error // its address has the query in it
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
		return nil, fmt.Errorf("its answer is over %d bytes: narrow the query", maxAnswer)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answers %s%s", response.Status, reasonIn(body))
	}
	return body, nil
}

// reasonIn is what an answer that is no success says; empty where it says nothing that can be read.
func reasonIn(body []byte) string {
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		return ""
	}
	return ": " + said.Error
}

// ofPrometheus reads the answer of Prometheus to an instant query.
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
		return "", fmt.Errorf("its answer is not Prometheus' JSON: %w", err)
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
			return "", fmt.Errorf("its answer is not Prometheus' JSON: %w", err)
		}
		if len(series) > 0 {
			return "the query has a result", nil
		}
		return "", nil
	case "scalar":
		var value []any
		if err := json.Unmarshal(answer.Data.Result, &value); err != nil || len(value) != 2 {
			return "", errors.New("its answer is not Prometheus' JSON: a scalar is a time and a value")
		}
		if value[1] != "0" {
			return fmt.Sprintf("the query is %v", value[1]), nil
		}
		return "", nil
	}
	return "", fmt.Errorf("the query has a result of the type %q: it has to be an instant vector or a scalar", answer.Data.Type)
}

// ofAlertmanager reads Alertmanager's list of alerts.
func ofAlertmanager(body []byte) (words string, err error) {
	var alerts []struct {
		Labels map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(body, &alerts); err != nil {
		return "", fmt.Errorf("its answer is not Alertmanager's JSON: %w", err)
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
		return fmt.Sprintf("alerts %s and %d more are active", strings.Join(names[:3], ", "), len(names)-3), nil
	}
	return fmt.Sprintf("%s active: %s", map[bool]string{true: "alert", false: "alerts"}[len(names) == 1], strings.Join(names, ", ")), nil
}
