package awssim

import (
	"cmp"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// DefaultAccount is the default account.
const DefaultAccount = "000000000000"

// Options configure a Simulator. Every field has a default.
type Options struct {
	Region  string   // default eu-west-1
	Account string   // default 000000000000
	Zones   []string // default: a, b and c of the region
	Seed    uint64   // for random choices

	LaunchDelay         time.Duration // pending to running
	ShutdownDelay       time.Duration // shutting-down to terminated
	SpotWarning         time.Duration // from a spot instance's interruption warning to its termination; default two minutes, as in EC2
	ResourceTime        time.Duration // how long CloudFormation takes for each resource of a stack, and for a change set
	TerminatedRetention time.Duration // how long a terminated instance stays visible; default one hour, as in EC2

	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default: discard
}

func (o Options) withDefaults() Options {
	o.Region = cmp.Or(o.Region, "eu-west-1")
	o.Account = cmp.Or(o.Account, DefaultAccount)
	o.SpotWarning = cmp.Or(o.SpotWarning, spotWarning)
	o.TerminatedRetention = cmp.Or(o.TerminatedRetention, time.Hour)
	if len(o.Zones) == 0 {
		o.Zones = []string{o.Region + "a", o.Region + "b", o.Region + "c"}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Simulator is one account in one region.
type Simulator struct {
	options  Options
	services map[string]service
	admin    http.Handler
	events   *dispatcher

	mu       sync.Mutex // guards the fields below
	account  *account
	faults   faults
	calls    calls
	reroutes map[string]*Simulator // by access key
}

// New returns a simulator with the catalog's instance types and images, and otherwise empty.
func New(options Options) *Simulator {
	options = options.withDefaults()
	s := &Simulator{options: options, events: &dispatcher{}}
	s.account = newAccount(options, s.events.publish)
	s.account.begin = s.beginOperation
	s.services = s.account.services()
	s.admin = s.adminHandler()
	return s
}

// Handler serves all services and the admin endpoint.
func (s *Simulator) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Subscribe calls f for every change of an instance's state from now on, sequentially and in order. f may call the
// simulator.
func (s *Simulator) Subscribe(f func(Event)) { s.events.subscribe(f) }

// locked runs f on the current account and schedules the changes of state that f has started.
func (s *Simulator) locked(f func(*account)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	f(s.account)
	s.schedule()
}

// advance updates the account to the current time. The mutex is held.
func (s *Simulator) advance() { s.account.advance(s.options.Now()) }

// schedule wakes the simulator when the next change of state is due. The mutex
// is held.
func (s *Simulator) schedule() {
	for _, due := range s.account.takeAlarms() {
		time.AfterFunc(due.Sub(s.account.now), func() { s.locked(func(*account) {}) })
	}
}
