package review

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// Review is what is reported of a commit's plan.
type Review struct {
	// State is Success if nothing is held or refused, Pending if the plan waits for something that needs no action,
	// otherwise Failure: requiring the status for a merge keeps out what plumbline would not apply, and what would do
	// more than the plan says.
	State report.State
	// Line describes the result in at most MaxDescription characters.
	Line string

	of     Input
	pools  []pool
	checks []string
}

// Input is the input of a Review.
type Input struct {
	*Preview
	// Branch is the target branch of the commit, and Behind reports whether it has applied commits that are not in the
	// commit. Lacks is the branch's newest commit if that is neither applied nor in the commit; empty if there is none,
	// or if a merge adds nothing to it.
	Branch string
	Behind bool
	Lacks  string
	// Way describes how the commit would go over the rings of a fleet; empty without rings.
	Way string
	// Hide removes values of Secrets from texts of the cluster.
	Hide redact.Redactor
	Now  time.Time
}

// Of returns the Review of a Preview.
func Of(in Input) Review {
	r := Review{State: report.Success, of: in}
	if in.Plan == nil {
		in.Plan = &plan.Plan{}
	}
	r.pools = poolsOf(in)
	switch {
	case in.Stopped != nil:
		r.stopped(in.Stopped)
	case in.ChartsRefused != nil:
		r.fail("refused: " + r.brief(in.ChartsRefused))
	default:
		r.countNodes()
	}
	switch branch := redact.Visible(in.Branch); {
	case in.Lacks != "":
		r.fail(fmt.Sprintf("lacks %s of %s, which is not in force yet: update the branch; as it is: %s", in.Lacks, branch, r.Line))
	case in.Behind:
		r.Line = report.Truncate("behind " + branch + ": " + r.Line)
	}
	return r
}

// Refused returns the Review of a commit that has no plan.
func Refused(err error, hide redact.Redactor) Review {
	r := Review{of: Input{Preview: &Preview{Plan: &plan.Plan{}}, Hide: hide}}
	r.stopped(err)
	return r
}

func (r *Review) fail(line string) { r.State, r.Line = report.Failure, report.Truncate(line) }

func (r *Review) stopped(err error) {
	r.checks = append(r.checks, r.whole(err)...)
	if f := fault.Classify(err); f.Class == fault.Waiting {
		r.State, r.Line = report.Pending, report.Truncate("waits: "+strings.TrimPrefix(r.brief(err), "waiting for "))
		return
	}
	brief := strings.TrimPrefix(r.brief(err), "refused: ")
	if r.fail("refused: " + brief); len(r.checks) == 1 && !strings.Contains(r.Line, "…") {
		r.checks = nil // the line contains all of it
	}
}

// whole returns an error's full message in lines: for several mistakes in files one for each, without the summary line.
func (r *Review) whole(err error) []string {
	text := err.Error()
	if mistakes := render.Errors(nil); errors.As(err, &mistakes) && len(mistakes) > 1 && mistakes.Error() == text {
		_, text, _ = strings.Cut(text, "\n")
	}
	if !fault.Classify(err).OnlyGit() {
		text = r.of.Hide.Hide(text)
	}
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
}

// brief returns an error in a few words. If the whole error is about Git, it hides nothing: hiding a value would
// confirm that it is a Secret's.
func (r *Review) brief(err error) string {
	f := fault.Classify(err)
	if f.OnlyGit() {
		return f.Brief().String()
	}
	return r.of.Hide.Hide(f.Brief().String())
}

// countNodes reports what the guard and the API server would refuse, what waits, and then what happens to nodes.
func (r *Review) countNodes() {
	p := r.of.Plan
	var refused, held []string
	var first error
	for i := range p.Changes {
		switch c := &p.Changes[i]; {
		case c.Err != nil:
			refused, first = append(refused, c.Ref.String()), cmp.Or(first, c.Err)
			r.checks = append(r.checks, check("refused: ", c.Ref.String(), c.Message))
		case c.Action == plan.Hold:
			held = append(held, fmt.Sprintf("%s (%s)", c.Ref, touched(c)))
			r.checks = append(r.checks, check(r.holds(), c.Ref.String(), c.Message))
		}
	}
	for i := range p.Removals {
		if c := &p.Removals[i]; c.Held {
			held = append(held, fmt.Sprintf("removal of %s (%s)", c.Ref, nodes(c.Nodes)))
			r.checks = append(r.checks, check(r.holds()+"removal of ", c.Ref.String(), c.Message))
		}
	}
	waits := r.waits()
	switch {
	case len(refused) > 0:
		r.fail("refused: " + r.brief(first) + andMore(len(refused)))
	case r.of.VersionChanges != "":
		r.fail("Karpenter " + r.of.VersionChanges + ": what its charts do is not known here")
	case len(held) > 0 && !r.of.ApprovedInGit:
		r.fail("held: " + held[0] + strings.TrimPrefix(andMore(len(held)), ";"))
	case len(held)+len(waits) > 0:
		var parts []string
		if len(held) > 0 {
			parts = append(parts, "approved in "+render.FileName+": "+r.of.Plan.Approvable.Summary())
		}
		if len(waits) > 0 {
			parts = append(parts, "waits: "+waits[0]+andMore(len(waits)))
		}
		r.Line = report.Truncate(strings.Join(append(parts, r.atOnce()...), "; "))
	default:
		line := r.effect()
		if r.of.ChartsUnknown {
			line += "; what becomes of the charts is not known here"
		}
		r.Line = report.Truncate(line)
	}
}

// holds is the prefix of a line about something that the guard holds.
func (r *Review) holds() string {
	if r.of.ApprovedInGit {
		return "approved in " + render.FileName + ": "
	}
	return "held: "
}

// waits returns what would not be done immediately, and why: usually because of a window or a freeze. It does not
// prevent the merge, and does not include what already waits on the branch.
func (r *Review) waits() []string {
	p := r.of.Plan
	var found []string
	wait := func(what string, touched int, message string) {
		if r.checks = append(r.checks, check("waits: ", what, message)); touched > 0 {
			what += " (" + nodes(touched) + ")"
		}
		why, _, _ := strings.Cut(message, "; ")
		found = append(found, check("", what, why))
	}
	if r.chartsWait() {
		what, _, _ := strings.Cut(r.of.Hide.Hide(r.of.ChartsChange), ":")
		wait(what, 0, p.Frozen.Message)
	}
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Action == plan.Wait && c.Err == nil {
			wait(c.Ref.String(), c.Nodes, c.Message)
		}
	}
	for i := range p.Removals {
		if c := &p.Removals[i]; c.Queued && !c.Recorded {
			wait("removal of "+c.Ref.String(), c.Nodes, strings.TrimPrefix(c.Message, "queued: "))
			continue
		}
		if c := &p.Removals[i]; p.Frozen.Message != "" && (c.Ref.Kind == render.NodePool || c.UpTo) && !c.Held && !c.Recorded {
			wait("removal of "+c.Ref.String(), c.Nodes, p.Frozen.Message)
		}
	}
	return found
}

// chartsWait reports whether the change of Karpenter's charts waits for the end of a freeze.
func (r *Review) chartsWait() bool {
	frozen := r.of.Plan.Frozen.Message
	return frozen != "" && strings.HasSuffix(r.of.Hide.Hide(r.of.ChartsChange), frozen)
}

// check returns a line about what is held or refused, and why: most messages already start with the object's name.
func check(what, name, message string) string {
	return what + name + ": " + strings.TrimPrefix(strings.TrimPrefix(message, name), ": ")
}

func andMore(n int) string { return shortlist.More("; ", n-1) }

// touched returns the number of nodes that a Change affects.
func touched(c *plan.Change) string {
	if c.UpTo {
		return "up to " + nodes(c.Nodes)
	}
	return nodes(c.Nodes)
}

func nodes(n int) string { return english.Plural(n, "node", "") }

// atOnce returns what a commit does to the charts and to nodes without being held or waiting.
func (r *Review) atOnce() []string {
	var parts []string
	if charts := r.of.Hide.Hide(r.of.ChartsChange); charts != "" && !r.chartsWait() {
		what, _, _ := strings.Cut(charts, ":")
		parts = append(parts, what+" (nodes: plumbline plan)")
	}
	if pools := r.of.Unlaunchable; len(pools) > 0 {
		parts = append(parts, "no instance type meets "+finding.Some(pools)+": no node is launched or replaced there")
	}
	if stuck := drifting(r.of.NodeLimits); len(stuck) > 0 {
		parts = append(parts, "limits.nodes leaves no room in "+finding.Some(stuck)+": no node is replaced there")
	}
	replaced := slices.DeleteFunc(slices.Clone(r.pools),
		func(p pool) bool { return p.Effect != string(plan.EffectReplace) || p.pace.Unlaunchable != "" })
	drained := slices.DeleteFunc(slices.Clone(r.pools), func(p pool) bool { return p.Effect != string(plan.EffectDrain) })
	if words := replacing(replaced); words != "" {
		parts = append(parts, words)
	}
	if words := draining(drained); words != "" {
		parts = append(parts, words)
	}
	if words := consolidating(r.pools); words != "" {
		parts = append(parts, words)
	}
	return parts
}

// drifting returns the static pools at their limits.nodes whose nodes the Plan makes drift.
func drifting(limits []plan.NodeLimit) []string {
	var pools []string
	for _, limit := range limits {
		if limit.Nodes > 0 {
			pools = append(pools, limit.Pool)
		}
	}
	return pools
}

// effect returns what a commit without holds does.
func (r *Review) effect() string {
	parts := r.atOnce()
	changed := len(r.of.Plan.Changes) + len(r.of.Plan.Removals)
	switch {
	case len(parts) > 0:
	case changed == 0:
		return "no change"
	default:
		parts = append(parts, english.Plural(changed, "object changes", "objects change")+", no node is touched")
	}
	return strings.Join(parts, "; ") + "; no hold"
}

func replacing(pools []pool) string {
	switch len(pools) {
	case 0:
		return ""
	case 1:
		p := pools[0]
		return fmt.Sprintf("replaces %s nodes in %s%s, %s", p.Nodes, p.Name, within(p.Reason), p.AtLeast)
	}
	touched, of, upTo := 0, 0, ""
	var reasons []string
	for _, p := range pools {
		touched, of = touched+p.pace.Nodes, of+p.pace.Of
		reasons = append(reasons, p.reasons...)
		if p.pace.UpTo {
			upTo = "up to "
		}
	}
	slowest := slices.MaxFunc(pools, func(a, b pool) int {
		return cmp.Or(cmp.Compare(a.pace.AtLeast(), b.pace.AtLeast()), cmp.Compare(a.pace.Rounds(), b.pace.Rounds()))
	})
	return fmt.Sprintf("replaces %s%d of %d nodes in %d pools%s, %s",
		upTo, touched, of, len(pools), within(joined(reasons)), slowest.bound)
}

func draining(pools []pool) string {
	switch len(pools) {
	case 0:
		return ""
	case 1:
		if to := pools[0].to; len(to) > 0 {
			return fmt.Sprintf("moves %s nodes of %s to %s", pools[0].Nodes, pools[0].Name, strings.Join(to, ", "))
		}
		return fmt.Sprintf("drains %s nodes of %s", pools[0].Nodes, pools[0].Name)
	}
	verb, n := "moves", 0
	for _, p := range pools {
		n += p.count
		if len(p.to) == 0 {
			verb = "drains"
		}
	}
	return fmt.Sprintf("%s %d nodes of %d pools", verb, n, len(pools))
}

// consolidating names the pools whose nodes Karpenter may consolidate if the commit is applied.
func consolidating(pools []pool) string {
	n := 0
	var words []string
	for _, p := range pools {
		if p.Effect == string(plan.EffectConsolidate) {
			n += p.count
			words = append(words, fmt.Sprintf("%s nodes of %s", p.Nodes, p.Name))
		}
	}
	switch len(words) {
	case 0:
		return ""
	case 1:
		return "lets Karpenter consolidate " + words[0]
	}
	return fmt.Sprintf("lets Karpenter consolidate up to %d nodes of %d pools", n, len(words))
}

func within(words string) string {
	if words == "" {
		return ""
	}
	return " (" + words + ")"
}

// pool is what happens to the nodes of one NodePool.
type pool struct {
	Name, Nodes, Effect, Reason, AtLeast string

	pace    plan.PoolPace
	reasons []string
	count   int
	// bound is the minimum number of rounds and waves, and how long they take.
	bound string
	// to are the pools that its nodes move to; empty if they are terminated.
	to []string
}

// poolsOf returns the pools whose nodes a Plan affects, including held ones, sorted by name.
func poolsOf(in Input) []pool {
	found := append(append(replaced(in, ""), replaced(in, plan.Hold)...), replaced(in, plan.Wait)...)
	for i := range in.Plan.Changes {
		if c := &in.Plan.Changes[i]; c.Effect == plan.EffectDrain {
			found = append(found, pool{
				Name: c.Ref.Name, Nodes: fmt.Sprint(c.Nodes), Effect: stays(c.Action, plan.EffectDrain), Reason: c.Reason, count: c.Nodes,
			})
		}
		if c := &in.Plan.Changes[i]; c.Consolidates() > 0 && c.Err == nil {
			found = append(found, consolidated(c, in))
		}
		if c := &in.Plan.Changes[i]; c.Ref.Kind == render.CapacityBuffer && c.Effect == plan.EffectConsolidate && c.Err == nil {
			found = append(found, released(c.Ref, c.Nodes, c.Action))
		}
	}
	found = append(found, removedPools(in)...)
	slices.SortStableFunc(found, func(a, b pool) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// removedPools returns the rows of the NodePools and CapacityBuffers that a Plan removes and that have nodes.
func removedPools(in Input) []pool {
	var found []pool
	ends := map[string]plan.PoolPace{}
	for _, pace := range plan.RemovalPaces(in.Plan.Removals, in.Removal) {
		ends[pace.Pool] = pace
	}
	for i := range in.Plan.Removals {
		c := &in.Plan.Removals[i]
		action := plan.Action("")
		switch {
		case c.Held:
			action = plan.Hold
		case c.Queued, in.Plan.Frozen.Message != "":
			action = plan.Wait
		}
		if c.UpTo && c.Nodes > 0 {
			found = append(found, released(c.Ref, c.Nodes, action))
		}
		if c.Ref.Kind != render.NodePool || c.Nodes == 0 {
			continue
		}
		p := pool{
			Name: c.Ref.Name, Nodes: fmt.Sprintf("%d of %d", c.Nodes, c.Nodes), Effect: stays(action, plan.EffectDrain),
			Reason: cmp.Or(c.Reason, Left(c.MovesTo)), count: c.Nodes, to: c.MovesTo,
		}
		if pace, is := ends[p.Name]; is {
			p.AtLeast, p.pace = pace.LowerBound(), pace
		}
		found = append(found, p)
	}
	return found
}

// consolidated is the row of a pool whose nodes Karpenter may consolidate after a Change, but not before it.
func consolidated(c *plan.Change, in Input) pool {
	of := 0
	for i := range in.Live.NodeClaims {
		if in.Live.NodeClaims[i].Pool == c.Ref.Name {
			of++
		}
	}
	return pool{
		Name: c.Ref.Name, Nodes: fmt.Sprintf("up to %d of %d", c.Consolidates(), of), Effect: stays(c.Action, plan.EffectConsolidate),
		Reason: "empty or underused", count: c.Consolidates(),
	}
}

// released is the row of a CapacityBuffer that keeps less capacity free.
func released(buffer render.Ref, nodes int, action plan.Action) pool {
	return pool{
		Name: buffer.String(), Nodes: fmt.Sprintf("up to %d", nodes), Effect: stays(action, plan.EffectConsolidate),
		Reason: "capacity is no longer reserved", count: nodes,
	}
}

// Left returns why an entry is removed. movesTo are the entries that replace it.
func Left(movesTo []string) string {
	if len(movesTo) > 0 {
		return "removed from Git, replaced by " + strings.Join(movesTo, ", ")
	}
	return "removed from Git"
}

// stays returns an effect, and whether it is held or waits.
func stays(action plan.Action, effect plan.Effect) string {
	switch action { //nolint:exhaustive // all others go ahead
	case plan.Hold:
		return "held: " + string(effect)
	case plan.Wait:
		return "waits: " + string(effect)
	}
	return string(effect)
}

// replaced returns the pools whose nodes Karpenter replaces because of Changes with an action: Hold, Wait, or empty for
// all others.
func replaced(in Input, action plan.Action) []pool {
	changes := slices.DeleteFunc(slices.Clone(in.Plan.Changes), func(c plan.Change) bool {
		of := plan.Action("")
		if c.Action == plan.Hold || c.Action == plan.Wait {
			of = c.Action
		}
		return of != action || c.Err != nil
	})
	of := map[types.UID]string{}
	for i := range in.Live.NodeClaims {
		of[in.Live.NodeClaims[i].UID] = in.Live.NodeClaims[i].Pool
	}
	reasons := map[string][]string{}
	for i := range changes {
		c := &changes[i]
		if c.Effect != plan.EffectReplace {
			continue
		}
		for _, uid := range c.NodeClaims() {
			name := of[uid]
			reasons[name] = append(reasons[name], c.DriftReasons...)
		}
	}
	var found []pool
	for _, pace := range plan.Paces(changes, in.Live, plan.Unlaunchable(in.Unlaunchable, in.NodeLimits), in.Now) {
		p := pool{
			Name: pace.Pool, Nodes: fmt.Sprintf("%d of %d", pace.Nodes, pace.Of), Effect: stays(action, plan.EffectReplace),
			Reason: joined(reasons[pace.Pool]), reasons: reasons[pace.Pool], AtLeast: atLeast(pace, in), bound: lowerBound(pace, in), pace: pace,
			count: pace.Nodes,
		}
		if pace.UpTo {
			p.Nodes = "up to " + p.Nodes
		}
		found = append(found, p)
	}
	return found
}

// atLeast describes the lower bound of the time.
func atLeast(pace plan.PoolPace, in Input) string {
	switch {
	case pace.Unlaunchable != "":
		return pace.Unlaunchable
	case pace.Allowed.Unreadable:
		return "a disruption budget cannot be read"
	case pace.Rounds() == 0:
		return "its disruption budgets allow none"
	case pace.Allowed.Now == 0:
		return fmt.Sprintf("from %s on, %s", plan.ClockTime(pace.Allowed.At, in.Now), lowerBound(pace, in))
	}
	return lowerBound(pace, in)
}

// lowerBound describes the minimum number of rounds and their duration, and that of the waves.
func lowerBound(pace plan.PoolPace, in Input) string {
	words := pace.LowerBound()
	if waves, adds := wavesOf(pace.Nodes, in.Rollout); waves != nil && !pace.Leaves {
		words += fmt.Sprintf("; %d waves, %s more", len(waves), plan.Short(adds))
	}
	return words
}

// joined returns the words sorted, without duplicates.
func joined(words []string) string {
	sorted := slices.Clone(words)
	slices.Sort(sorted)
	return strings.Join(slices.Compact(sorted), ", ")
}
