package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/steppoint"
)

// ender is AWS, as far as it ends what is left of a cluster; it returns why, by the ID of each that it does not.
type ender interface {
	End(ctx context.Context, cluster string, resources []cloud.Resource) map[string]error
}

// dialEnder reaches it with the credentials of the user.
func dialEnder(ctx context.Context, region string, points steppoint.Points) (ender, error) {
	return cloud.NewEnder(ctx, cloud.Options{Region: region, UserAgent: "plumbline-cli/" + version, Timeout: time.Minute, Reached: points.Request})
}

// scope is what the flags let this command end in AWS of a cluster that is gone.
func (t *teardown) scope() leftover.Scope {
	return leftover.Scope{Cluster: t.v.cluster, Instances: t.terminate, Leftovers: t.sweep}
}

// endRun ends what the user has confirmed, pass by pass.
type endRun struct {
	scope leftover.Scope
	// shown are the IDs of what was listed before the confirmation: nothing else is ended.
	shown map[string]bool
	// renew reads once more what of the cluster stays, before AWS is asked, and allowed says why nothing may be
	// ended, right before that; each may be nil.
	renew   func(ctx context.Context) error
	allowed func(ctx context.Context, aws remains) error

	by ender
	// said is what was printed of each, and refused how often AWS has refused it.
	said    map[string]string
	refused map[string]int
	// taken says that AWS has ended something.
	taken bool
}

// refusedTwice is how often something is tried that AWS refuses: a protection may be lifted meanwhile.
const refusedTwice = 2

// shownIDs are those of a list.
func shownIDs(resources []cloud.Resource) map[string]bool {
	ids := map[string]bool{}
	for _, r := range resources {
		ids[r.ID] = true
	}
	return ids
}

// endLeft ends what is in scope and was shown until AWS has none of it, twice in a row, or until the time is over.
func (t *teardown) endLeft(ctx context.Context, run *endRun) error {
	aws, _, err := t.v.open(ctx)
	if err != nil {
		return err
	}
	if run.by, err = t.v.dialEnder(ctx, t.v.region, t.points); err != nil {
		return err
	}
	run.said, run.refused = map[string]string{}, map[string]int{}
	for inARow := 0; inARow < goneTwice; {
		left, denied, err := t.endPass(ctx, aws, run)
		if err != nil || denied {
			return err // who asks once more reports what is denied
		}
		inARow++
		if left {
			inARow = 0
		}
		if !t.v.now().Before(t.until) {
			return nil
		}
		if err := pauseFor(ctx, t.v.pause); err != nil {
			return err
		}
	}
	return nil
}

// endPass asks AWS once and ends what may be ended by its answer. It says whether something is left to end, or
// may be, and whether AWS denies a question.
func (t *teardown) endPass(ctx context.Context, aws remains, run *endRun) (left, denied bool, err error) {
	if run.renew != nil {
		switch err := run.renew(ctx); {
		case errors.Is(err, errUnreachable):
			return true, false, nil // nobody knows what stays: it is read again
		case err != nil:
			return false, false, err
		}
	}
	answers, known, err := t.v.answers(ctx, aws)
	if err != nil {
		return false, false, err
	}
	report, ending := leftover.Judge(answers, known), leftover.Ends(answers, known, run.scope)
	if report.Denied() {
		return false, true, nil
	}
	now := slices.DeleteFunc(ending.Now(), func(r cloud.Resource) bool { return !run.shown[r.ID] || run.refused[r.ID] >= refusedTwice })
	left = report.Unanswered() || len(now)+len(ending.Going) > 0
	if len(now) == 0 {
		return left, false, nil
	}
	if run.allowed != nil {
		if err := run.allowed(ctx, aws); err != nil {
			return false, false, err
		}
	}
	return left, false, t.end(ctx, run, now)
}

// end ends resources, and says what became of each, once. It is an error where AWS denies to end any: to ask
// again does not help.
func (t *teardown) end(ctx context.Context, run *endRun, resources []cloud.Resource) error {
	failed := run.by.End(ctx, t.v.cluster, resources)
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, r := range resources {
		words := "is deleted"
		if r.Kind == cloud.KindInstance {
			words = "is being terminated"
		}
		if err := failed[r.ID]; err != nil {
			words = "is not ended: " + leftover.Explain(err, leftover.EndingPolicy)
			if cloud.Refused(err) {
				run.refused[r.ID]++
			}
		} else {
			run.taken = true
		}
		if run.said[r.ID] != words {
			run.said[r.ID] = words
			t.show.say(leftover.Noun(r.Kind) + " " + r.ID + " " + words)
		}
	}
	return run.useless(failed)
}

// useless says why to go on does not help: AWS does not accept the credentials, or denies to end anything.
func (r *endRun) useless(failed map[string]error) error {
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		var denied *cloud.DeniedError
		var credentials *cloud.CredentialsError
		if errors.As(failed[id], &credentials) || errors.As(failed[id], &denied) && !r.taken {
			return errors.New(leftover.Explain(failed[id], leftover.EndingPolicy))
		}
	}
	return nil
}

// sayEnds says what is going to end, and what is not.
func (t *teardown) sayEnds(e leftover.Ending, answers []cloud.Answer) {
	if all := slices.Concat(e.Ends, e.Going); len(all) > 0 {
		t.show.say("ends in AWS: " + leftover.Listed(all))
		t.sayAttached(answers, all)
	}
	t.saySpared(e)
}

// sayAttached says which volumes instances have, that they may leave: these are in no list yet.
func (t *teardown) sayAttached(answers []cloud.Answer, instances []cloud.Resource) {
	if volumes := leftover.Attached(answers, instances); len(volumes) > 0 {
		t.show.say("attached to these: " + leftover.Listed(volumes) + "; what their termination leaves of it stays, and is shown by the next run")
	}
}

func (t *teardown) saySpared(e leftover.Ending) {
	for _, r := range e.Spared {
		t.show.say(leftover.Noun(r.Kind) + " " + r.ID + " stays: " + r.Why)
	}
}
