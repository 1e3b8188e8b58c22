package awssim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// Call is a call that was answered, or whose response was lost. It is logged before its caller gets the response.
type Call struct {
	Sequence   int               `json:"sequence"`
	Time       time.Time         `json:"time"`
	Service    string            `json:"service"`
	Action     string            `json:"action"`
	AccessKey  string            `json:"accessKey"`
	UserAgent  string            `json:"userAgent"`
	Parameters map[string]string `json:"parameters,omitempty"` // of form requests; long values are truncated
	Body       string            `json:"body,omitempty"`       // of JSON requests, truncated
	Code       string            `json:"code,omitempty"`       // of the error; empty: success
	Message    string            `json:"message,omitempty"`
	DryRun     bool              `json:"dryRun,omitempty"`
	Faults     []string          `json:"faults,omitempty"`        // IDs of the faults that applied
	Unknown    []string          `json:"notUnderstood,omitempty"` // parameters the simulator ignored
}

const (
	keptCalls     = 50_000 // the oldest are deleted first
	keptValue     = 256    // bytes of a parameter's value or a body
	keptParameter = 64     // parameters of a call; a fleet can have thousands
)

// calls is the log of calls in the order in which they took effect.
type calls struct {
	list []Call
	last int
}

func (c *calls) add(call Call) {
	c.last++
	call.Sequence = c.last
	if len(c.list) == keptCalls {
		c.list = slices.Delete(c.list, 0, keptCalls/10)
	}
	c.list = append(c.list, call)
}

// newCall describes a call once its outcome is known.
func newCall(req *request, err error) Call {
	call := Call{
		Time:      req.started,
		Service:   req.service.name,
		Action:    req.action,
		AccessKey: req.principal.AccessKey,
		UserAgent: req.principal.UserAgent,
		DryRun:    req.form.Get("DryRun") == "true",
		Faults:    req.effects.faults,
		Unknown:   req.unknown,
	}
	for _, name := range slices.Sorted(maps.Keys(req.form)) {
		if name == "Action" || name == "Version" {
			continue
		}
		if call.Parameters == nil {
			call.Parameters = map[string]string{}
		}
		if len(call.Parameters) == keptParameter {
			break
		}
		call.Parameters[name] = cut(req.form.Get(name))
	}
	if req.form == nil {
		call.Body = cut(string(req.body))
	}
	if err != nil {
		failure := wire.AsError(err)
		call.Code, call.Message = failure.Code, failure.Message
	}
	return call
}

func cut(s string) string {
	if len(s) <= keptValue {
		return s
	}
	return strings.ToValidUTF8(s[:keptValue], "") + "…"
}

// Calls returns the calls to that service and action, in the order in which they
// took effect; empty means any.
func (s *Simulator) Calls(service, action string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []Call{}
	for _, c := range s.calls.list {
		if (service == "" || c.Service == service) && (action == "" || c.Action == action) {
			found = append(found, c)
		}
	}
	return found
}

// ForgetCalls empties the log of calls. Their numbering continues.
func (s *Simulator) ForgetCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls.list = nil
}
