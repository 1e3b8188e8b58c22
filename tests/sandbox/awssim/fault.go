package awssim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// FaultKind is the kind of a fault.
type FaultKind string

// The kinds of faults.
const (
	Delay        FaultKind = "delay"        // respond after Duration
	Throttle     FaultKind = "throttle"     // rate exceeded
	Deny         FaultKind = "deny"         // not authorized
	Expire       FaultKind = "expire"       // the credentials have expired
	LoseResponse FaultKind = "loseResponse" // do the work, then close the connection
	Hide         FaultKind = "hide"         // describing calls omit what the call creates for Duration
	Fail         FaultKind = "error"        // respond with Code, and do nothing
)

// Fault makes calls fail. An empty matcher matches every call.
type Fault struct {
	ID        string    `json:"id"`
	Service   string    `json:"service,omitempty"`   // ec2, iam, …
	Action    string    `json:"action,omitempty"`    // CreateFleet; * and ? are wildcards
	AccessKey string    `json:"accessKey,omitempty"` // whose calls
	UserAgent string    `json:"userAgent,omitempty"` // a part of it
	Kind      FaultKind `json:"kind"`
	Duration  Duration  `json:"duration,omitempty"`
	Code      string    `json:"code,omitempty"`    // of error: InternalError, …
	Message   string    `json:"message,omitempty"` // of error; default: AWS's message for its own failures
	Status    int       `json:"status,omitempty"`  // of error, the HTTP status; default 500 for the codes of AWS's own failures, else 400
	Rate      float64   `json:"rate,omitempty"`    // of throttle: calls per second that are allowed, a second's worth at once; 0: none
	Count     int       `json:"count,omitempty"`   // how many calls; 0: all until it is removed
	Hits      int       `json:"hits"`              // how many calls it has applied to

	bucket bucket
}

// Duration is encoded as 1m30s in JSON.
type Duration time.Duration

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("a duration is a string like 1m30s: %w", err)
	}
	parsed, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("reading a duration: %w", err)
	}
	*d = Duration(parsed)
	return nil
}

func (f Fault) validate() error {
	if f.Rate != 0 && (f.Kind != Throttle || f.Rate < 0) {
		return fmt.Errorf("a fault of kind %s with a rate of %g: only throttle has one, and it is positive", f.Kind, f.Rate)
	}
	if (f.Kind == Fail) != (f.Code != "") {
		return fmt.Errorf("a fault of kind %s with the code %q: error has one, and no other kind", f.Kind, f.Code)
	}
	switch f.Kind {
	case Throttle, Deny, LoseResponse, Expire, Fail:
		return nil
	case Delay, Hide:
		if f.Duration <= 0 {
			return fmt.Errorf("a fault of kind %s needs a duration", f.Kind)
		}
		return nil
	default:
		return fmt.Errorf("unknown kind of fault %q: use delay, throttle, deny, expire, loseResponse, hide or error", f.Kind)
	}
}

func (f Fault) matches(r *request) bool {
	return (f.Service == "" || f.Service == r.service.name) &&
		(f.Action == "" || wildcard(f.Action, r.action)) &&
		(f.AccessKey == "" || f.AccessKey == r.principal.AccessKey) &&
		strings.Contains(r.principal.UserAgent, f.UserAgent)
}

// ownTrouble are the codes of AWS's own failures.
var ownTrouble = []string{"InternalError", "InternalFailure", "ServerInternal", "ServiceUnavailable", "Unavailable", "ServerException", "ServiceFailure"}

// failure returns the response of a fault of kind error.
func (f Fault) failure() *wire.Error {
	status := http.StatusBadRequest
	if slices.Contains(ownTrouble, f.Code) {
		status = http.StatusInternalServerError
	}
	return wire.Errorf(f.Code, "%s", cmp.Or(f.Message, "An internal error has occurred")).WithStatus(cmp.Or(f.Status, status))
}

// effects is the combined effect of all faults on one call.
type effects struct {
	delay        time.Duration
	hide         time.Duration
	throttle     bool
	deny         bool
	expire       bool
	loseResponse bool
	failure      *wire.Error
	faults       []string // their IDs
}

// faults are those that are still active.
type faults struct {
	list []Fault
	last int
}

func (fs *faults) add(f Fault) Fault {
	fs.last++
	f.ID, f.Hits = fmt.Sprintf("fault-%d", fs.last), 0
	fs.list = append(fs.list, f)
	return f
}

// meet counts r for every fault that matches it and returns their effects.
func (fs *faults) meet(r *request, now time.Time) effects {
	var e effects
	for i := range fs.list {
		f := &fs.list[i]
		if !f.matches(r) || f.Rate > 0 && f.bucket.take(f.Rate, now) {
			continue
		}
		f.Hits++
		e.faults = append(e.faults, f.ID)
		switch f.Kind {
		case Delay:
			e.delay += time.Duration(f.Duration)
		case Hide:
			e.hide = max(e.hide, time.Duration(f.Duration))
		case Throttle:
			e.throttle = true
		case Deny:
			e.deny = true
		case Expire:
			e.expire = true
		case LoseResponse:
			e.loseResponse = true
		case Fail:
			e.failure = f.failure()
		}
	}
	fs.list = slices.DeleteFunc(fs.list, func(f Fault) bool { return f.Count > 0 && f.Hits >= f.Count })
	return e
}

// AddFault makes calls fail from now on and returns the fault with its ID.
func (s *Simulator) AddFault(f Fault) (Fault, error) {
	if err := f.validate(); err != nil {
		return Fault{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.add(f), nil
}

// Faults returns the active faults.
func (s *Simulator) Faults() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults.list)
}

// RemoveFaults removes the fault with that ID, or all if id is empty, and returns how many those were.
func (s *Simulator) RemoveFaults(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.faults.list)
	s.faults.list = slices.DeleteFunc(s.faults.list, func(f Fault) bool { return id == "" || f.ID == id })
	return before - len(s.faults.list)
}

// meet determines the effects of faults on r, and its principal.
func (s *Simulator) meet(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	r.effects = s.faults.meet(r, s.options.Now())
	s.account.identify(&r.principal)
	s.schedule()
}
