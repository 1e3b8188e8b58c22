package soak

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/charts"
	"github.com/plumbline-dev/plumbline/tests/stories/gitproxy"
)

// answer is a possible answer of a faulty host.
type answer struct {
	name string
	code int
}

// faultGit makes the Git host fail for fetches; people can still push.
func (s *soak) faultGit(context.Context) (string, error) {
	return s.faultHost("Git host", s.git, []answer{
		{"away", gitproxy.Down},
		{"hanging", gitproxy.Hang},
		{"slow", gitproxy.Slow},
		{"503", http.StatusServiceUnavailable},
	})
}

// faultStatuses makes the Git host reject commit statuses.
func (s *soak) faultStatuses(context.Context) (string, error) {
	return s.faultHost("status host", s.statuses, []answer{
		{"away", gitproxy.Down},
		{"hanging", gitproxy.Hang},
		{"429", http.StatusTooManyRequests},
		{"500", http.StatusInternalServerError},
		{"503", http.StatusServiceUnavailable},
	})
}

// faultHost draws one of several answers of a host.
func (s *soak) faultHost(name string, host *gitproxy.Proxy, answers []answer) (string, error) {
	given, d := answers[s.draw.IntN(len(answers))], s.lasting()
	if s.faults.stands(name) {
		return "is in trouble already", nil
	}
	host.Answer(given.code)
	s.letStand(name, d, func(context.Context) error {
		host.Answer(gitproxy.Up)
		return nil
	})
	return fmt.Sprintf("%s for %s", given.name, rounded(d)), nil
}

// faultCharts makes the registry fail. A daemon that has not lost its disk has the charts in its cache.
func (s *soak) faultCharts(context.Context) (string, error) {
	const name = "registry"
	faults := map[string]charts.Fault{
		"away": {Away: true}, "slow": {Delay: 3 * time.Second}, "502": {Status: http.StatusBadGateway}, "truncated": {Truncate: true}, "corrupt": {Corrupt: true},
	}
	how, d := s.pick([]string{"away", "slow", "502", "truncated", "corrupt"}), s.lasting()
	if s.faults.stands(name) {
		return "is in trouble already", nil
	}
	end := s.sandbox.Charts.Inject(faults[how])
	s.letStand(name, d, func(context.Context) error {
		end()
		return nil
	})
	return fmt.Sprintf("%s for %s", how, rounded(d)), nil
}
