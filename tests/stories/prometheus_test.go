package stories_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// prometheus is a fake Prometheus in which every query has a result, or none. Its responses are those that
// https://prometheus.io/docs/prometheus/latest/querying/api/ documents.
type prometheus struct {
	*httptest.Server
	mu   sync.Mutex
	says string
}

// answers are the possible responses.
var answers = map[string]string{
	"fires": `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"alertname":"Errors"},"value":[1767225600,"1"]}]}}`,
	"quiet": `{"status":"success","data":{"resultType":"vector","result":[]}}`,
}

func newPrometheus() *prometheus {
	p := &prometheus{says: "quiet"}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if r.URL.Path != "/api/v1/query" || r.FormValue("query") == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, answers[p.says])
	}))
	return p
}

// prometheusCommand starts a Prometheus, sets PROMETHEUS_URL, and sets what it answers.
func (s *story) prometheusCommand(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 || answers[args[0]] == "" {
		return errors.New("usage: prometheus fires|quiet")
	}
	if s.prometheus == nil {
		s.prometheus = newPrometheus()
		ts.Defer(s.prometheus.Close)
		ts.Setenv("PROMETHEUS_URL", s.prometheus.URL)
	}
	s.prometheus.mu.Lock()
	defer s.prometheus.mu.Unlock()
	s.prometheus.says = args[0]
	return nil
}
