package plan

import (
	"context"
	"fmt"
	"slices"

	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
	"github.com/plumbline-dev/plumbline/reconcile/plan/rules"
	"github.com/plumbline-dev/plumbline/render"
)

// ReasonPolicy is the reason of what a policy of spec.policies holds.
const ReasonPolicy = "Policy"

// compile compiles the policies, unless the last Plan has.
func (m *maker) compile() (err error) {
	m.rules = m.live.Memo.rules
	if !m.rules.Of(m.policy.Policies) {
		m.rules, err = rules.Compile(m.policy.Policies)
	}
	return err
}

// judge asks the policies about the Plan, before the guard weighs its nodes: what they hold disrupts
// none. An error says that nothing of the Plan may be done.
func (m *maker) judge(ctx context.Context, p *Plan) error {
	if m.policy.Deleting || len(m.policy.Policies) == 0 {
		return nil
	}
	document := p.Document(m.live)
	holds, err := m.rules.Judge(ctx, &document)
	if err != nil {
		return err
	}
	for _, h := range holds {
		m.holdChanges(p, h, &document)
		m.holdRemovals(p, h)
	}
	m.awaitHeldClasses(p)
	return nil
}

// holdChanges holds the Changes that a policy holds, and that nobody has approved.
func (m *maker) holdChanges(p *Plan, h rules.Hold, document *planjson.Plan) {
	for i := range p.Changes {
		if h.Removal == nil && (h.Change == nil || *h.Change == i) && rules.Asked(&document.Changes[i]) && !m.approvedBefore(h.Policy, &p.Changes[i]) {
			p.Changes[i].holdByPolicy(h)
		}
	}
}

// holdRemovals holds the removals likewise.
func (m *maker) holdRemovals(p *Plan, h rules.Hold) {
	for i := range p.Removals {
		if h.Change == nil && (h.Removal == nil || *h.Removal == i) && !m.approvedBefore(h.Policy, &p.Removals[i]) {
			p.Removals[i].holdByPolicy(h)
		}
	}
}

// holdByPolicy holds a Change that is written, or will be; what is refused is not written anyway. The message of the
// first policy is shown, and all are noted: people approve them together.
func (c *Change) holdByPolicy(h rules.Hold) {
	if !c.Action.Writes() && c.Action != Wait && c.Action != Hold {
		return
	}
	if message := noted(&c.policies, h); message != "" {
		c.hold(ReasonPolicy, message)
	}
}

// noted adds a policy, which may hold an object several times, and returns what to report of it; empty if it is
// noted already.
func noted(policies *[]string, h rules.Hold) (message string) {
	if slices.Contains(*policies, h.Policy) {
		return ""
	}
	message = h.Message
	if len(*policies) > 0 {
		message = fmt.Sprintf("policy %s holds it, too", h.Policy)
	}
	*policies = append(*policies, h.Policy)
	return message
}

// holdByPolicy holds a removal that has not terminated a node yet; there is nothing left to hold of what
// another client has deleted.
func (c *Candidate) holdByPolicy(h rules.Hold) {
	if c.Terminating {
		return
	}
	if message := noted(&c.policies, h); message != "" {
		c.hold(ReasonPolicy, message)
	}
}

// awaitHeldClasses has the objects wait that name a class which is held and does not exist yet: of such
// a pool no node would come.
func (m *maker) awaitHeldClasses(p *Plan) {
	held := map[string]bool{}
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Action == Hold && c.Live == nil {
			held[c.Ref.String()] = true
		}
	}
	for i := range p.Changes {
		c := &p.Changes[i]
		class, names := render.Reference(c.Ref, c.Object.Desired)
		if names && held[class.String()] && c.Action.Writes() {
			c.wait(ReasonClassNotMade, class, fmt.Sprintf("%s names %s, which is held", c.Ref, class))
			c.Effect, c.Nodes, c.UpTo, c.touched, c.unnamed, c.consolidated, c.expiring, c.DriftReasons, c.Warnings = EffectBlocked, 0, false, nil, 0, nil, nil, nil, nil
		}
	}
}
