package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
)

// ender is AWS, as far as it ends what is left of a cluster; it returns why, by the ID of each that it does not.
type ender interface {
	End(ctx context.Context, cluster string, resources []cloud.Resource) map[string]error
}

// dialEnder reaches it with the credentials of the user.
func dialEnder(ctx context.Context, region string) (ender, error) {
	return cloud.NewEnder(ctx, cloud.Options{Region: region, UserAgent: "plumbline-cli/" + version, Timeout: time.Minute})
}

// scope is what the flags let this command end in AWS.
func (t *teardown) scope() leftover.Scope {
	return leftover.Scope{Cluster: t.v.cluster, Instances: t.terminate, Leftovers: t.sweep}
}

// endLeft ends what is in scope until AWS has none of it, twice in a row, or until the time is over. Where
// before is given, only what it names is ended.
func (t *teardown) endLeft(ctx context.Context, before map[string]bool) error {
	aws, _, err := t.v.open(ctx)
	if err != nil {
		return err
	}
	by, err := t.v.dialEnder(ctx, t.v.region)
	if err != nil {
		return err
	}
	said := map[string]string{}
	for inARow := 0; inARow < goneTwice; {
		answers, known, err := t.v.answers(ctx, aws)
		if err != nil {
			return err
		}
		report, ending := leftover.Judge(answers, known), leftover.Ends(answers, known, t.scope())
		if report.Denied() {
			return nil // which is said by who asks once more
		}
		ending.Ends = slices.DeleteFunc(ending.Ends, func(r cloud.Resource) bool { return before != nil && !before[r.ID] })
		inARow++
		if report.Unanswered() || len(ending.Ends)+len(ending.Going) > 0 {
			inARow = 0
		}
		if err := t.end(ctx, by, ending.Ends, said); err != nil {
			return err
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

// end ends resources, and says what became of each, once. It is an error where AWS denies it: to ask
// again does not help.
func (t *teardown) end(ctx context.Context, by ender, resources []cloud.Resource, said map[string]string) error {
	if len(resources) == 0 {
		return nil
	}
	failed := by.End(ctx, t.v.cluster, resources)
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
		}
		if said[r.ID] != words {
			said[r.ID] = words
			t.show.say(leftover.Noun(r.Kind) + " " + r.ID + " " + words)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		var denied *cloud.DeniedError
		var credentials *cloud.CredentialsError
		if errors.As(failed[id], &denied) || errors.As(failed[id], &credentials) {
			return errors.New(leftover.Explain(failed[id], leftover.EndingPolicy))
		}
	}
	return nil
}

// sayEnds says what is going to end, and what is not.
func (t *teardown) sayEnds(e leftover.Ending) {
	if all := slices.Concat(e.Ends, e.Going); len(all) > 0 {
		t.show.say("ends in AWS: " + leftover.Listed(all))
	}
	t.saySpared(e)
}

func (t *teardown) saySpared(e leftover.Ending) {
	for _, r := range e.Spared {
		t.show.say(leftover.Noun(r.Kind) + " " + r.ID + " stays: " + r.Why)
	}
}
