package reconcile

import (
	"errors"
	"slices"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/redact"
)

// hidden is what came out of Secrets, which no message repeats. The zero value hides
// nothing.
type hidden struct {
	values, credentials remembered
}

// remembered are the secrets of the last pass that had other ones, and of the one
// before: a controller that runs with the latter may still be reported.
type remembered struct {
	last     []string
	redactor redact.Redactor
}

// addValues hides what came into the chart's values.
func (h *hidden) addValues(secrets []string) { h.values.add(secrets, redact.Values) }

// addCredentials hides what opens the source and the registries.
func (h *hidden) addCredentials(secrets []string) { h.credentials.add(secrets, redact.Credentials) }

func (r *remembered) add(secrets []string, hide func(...string) redact.Redactor) {
	if slices.Equal(r.last, secrets) {
		return
	}
	r.redactor = hide(append(slices.Clone(r.last), secrets...)...)
	r.last = slices.Clone(secrets)
}

// hide takes all of them out of a message.
func (h *hidden) hide(message string) string {
	return h.values.redactor.Hide(h.credentials.redactor.Hide(message))
}

func (h *hidden) empty() bool { return h.values.redactor.Empty() && h.credentials.redactor.Empty() }

// fault is an error without what is hidden, of the class that it had.
func (h *hidden) fault(err *fault.Error) *fault.Error {
	if err == nil || h.hide(err.Error()) == err.Error() {
		return err
	}
	brief := err.Brief().Map(h.hide)
	return &fault.Error{Class: err.Class, Reason: err.Reason, Err: errors.New(h.hide(err.Error())), Short: &brief}
}

// hideSecrets takes what came out of Secrets from all that a pass is going to say.
// It is the one place, and comes before any of it is said.
func (p *pass) hideSecrets() {
	h := &p.memory.hidden
	h.addCredentials(p.credentials)
	if h.empty() {
		return
	}
	p.fault = h.fault(p.fault)
	for _, err := range []*error{&p.unverified, &p.unfetched, &p.want.Unpulled, &p.stages.Unkept, &p.want.Renamed, &p.notUpgraded, &p.unwritten} {
		if *err != nil && h.hide((*err).Error()) != (*err).Error() {
			*err = h.fault(fault.Classify(*err))
		}
	}
	for i := range p.Waits {
		p.Waits[i].Message = h.hide(p.Waits[i].Message)
	}
	for i := range p.launchless {
		p.launchless[i].Why = h.hide(p.launchless[i].Why)
	}
	for i := range p.Notes {
		p.Notes[i].Message = h.hide(p.Notes[i].Message)
	}
	p.collision, p.drifting = h.hide(p.collision), h.hide(p.drifting)
	p.stages.CRDs.Message = h.hide(p.stages.CRDs.Message)
	p.stages.Controller.Message = h.hide(p.stages.Controller.Message)
	for ref, ready := range p.stages.objects {
		ready.Message = h.hide(ready.Message)
		p.stages.objects[ref] = ready
	}
	for i := range p.sync.Status.Removals {
		p.sync.Status.Removals[i].Message = h.hide(p.sync.Status.Removals[i].Message)
	}
	if k := p.sync.Status.Karpenter; k != nil && k.Target != nil {
		k.Target.Message = h.hide(k.Target.Message)
	}
}
