package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// phaseGone is the phase of what a teardown has ended.
const phaseGone = string(v1alpha1.RemovalGone)

// departure is how far one definition is.
type departure struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Phase string `json:"phase"`
	// Left of Of NodeClaims and instances are still there.
	Left int `json:"left"`
	Of   int `json:"of"`
	// Message says what it waits for, and Stalled that it stands still.
	Message string `json:"message,omitempty"`
	Stalled bool   `json:"stalled,omitempty"`
}

// ref is KIND/NAME.
func (d departure) ref() string { return d.Kind + "/" + d.Name }

// departures follow all definitions of a NodeSync, in the order in which they were shown.
type departures []departure

func newDepartures(l *teardownPlan) departures {
	var all departures
	for _, o := range l.Objects {
		all = append(all, departure{Kind: o.Kind, Name: o.Name, Left: o.NodeClaims, Of: o.NodeClaims})
	}
	return all
}

// see takes what the status says: what was recorded, and is not any more, is gone.
func (all departures) see(removals []v1alpha1.Removal) departures {
	open := map[string]v1alpha1.Removal{}
	for _, r := range removals {
		open[r.Kind+"/"+r.Name] = r
		if known := all.has(r.Kind, r.Name); !known {
			all = append(all, departure{Kind: r.Kind, Name: r.Name})
		}
	}
	for i := range all {
		d := &all[i]
		r, isOpen := open[d.ref()]
		switch {
		case isOpen:
			d.take(r)
		case d.Phase != "":
			*d = departure{Kind: d.Kind, Name: d.Name, Phase: phaseGone, Of: d.Of}
		}
	}
	return all
}

func (all departures) has(kind, name string) bool {
	for _, d := range all {
		if d.Kind == kind && d.Name == name {
			return true
		}
	}
	return false
}

// take takes what is recorded. Before anything was ended, what remains is not counted.
func (d *departure) take(r v1alpha1.Removal) {
	d.Phase, d.Message, d.Stalled = string(r.Phase), r.Message, r.Stalled != nil
	switch {
	case r.Drained():
		d.Phase, d.Message, d.Left = v1alpha1.ReasonDrained, "", 0
	case d.Kind != render.NodePool:
	case r.Phase == v1alpha1.RemovalPacing || r.Phase == v1alpha1.RemovalHeld:
		d.Left = max(d.Of, int(r.Remaining))
	default:
		d.Left = int(r.Remaining)
	}
	d.Of = max(d.Of, d.Left)
}

// watch stays until the NodeSync is gone, or its nodes are.
func (t *teardown) watch(ctx context.Context, sync *v1alpha1.NodeSync, l *teardownPlan) error {
	all, answers := newDepartures(l), contact{at: t.v.now()}
	moved, version, message := t.v.now(), "", ""
	defer t.show.end()
	for {
		if err := t.stands.over(); err != nil {
			return fmt.Errorf("%w; %s", err, t.goesOn())
		}
		seen, err := t.reread(ctx, sync)
		switch {
		case answers.lost(err, t.v.now()):
			t.show.say("the cluster cannot be reached; trying again")
		case err != nil || seen == nil:
			return err
		case seen.ResourceVersion != version:
			version, moved = seen.ResourceVersion, t.v.now()
			if seen.Status.ObservedGeneration < seen.Generation {
				break // its status is of before the deletion
			}
			all, message = all.see(seen.Status.Removals), conditions.GetMessage(seen, meta.ReadyCondition)
			t.show.progress(all, message)
			if t.downTo.keeps() && drained(seen) {
				return nil
			}
		case t.v.now().Sub(moved) > sayEvery:
			moved = t.v.now()
			t.awaitDaemon(ctx, sync, l)
		}
		if err := t.endStranded(ctx, sync, l); err != nil {
			return err
		}
		if !t.v.now().Before(t.until) {
			return t.late(answers, message)
		}
		if err := pauseFor(ctx, min(askEvery, t.v.pause)); err != nil {
			return err
		}
	}
}

// awaitDaemon ends the nodes in this process where the daemon has stopped meanwhile.
func (t *teardown) awaitDaemon(ctx context.Context, sync *v1alpha1.NodeSync, l *teardownPlan) {
	if t.stands != nil {
		return
	}
	why := t.c.withoutDaemon(ctx, t.v.now)
	if why == "" {
		return
	}
	err := t.mayEnd(ctx, sync, l)
	if err == nil {
		err = t.takeOver(ctx, sync, false)
	}
	if err != nil {
		t.show.say(fmt.Sprintf("%s; it goes on as soon as one does: %v", why, err))
		return
	}
	t.show.say(why + "; this command ends the nodes now")
}

// reread reads the NodeSync again; nil where it is gone.
func (t *teardown) reread(ctx context.Context, sync *v1alpha1.NodeSync) (*v1alpha1.NodeSync, error) {
	ctx, stop := context.WithTimeout(ctx, readTime)
	defer stop()
	seen := &v1alpha1.NodeSync{}
	err := t.c.Get(ctx, client.ObjectKeyFromObject(sync), seen)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, explain(err, "read NodeSync "+sync.Name)
	case seen.UID != sync.UID:
		return nil, fmt.Errorf("nodesync/%s is gone, and another client has created one by its name: it applies the nodes again. Take it out where it is applied from, and run the command again", sync.Name)
	}
	return seen, t.undone(seen)
}

// late says that the time is over, and what was waited for.
func (t *teardown) late(answers contact, message string) error {
	if answers.err != nil {
		return answers.err
	}
	t.show.end()
	message = cmp.Or(message, "the NodeSync does not say what it waits for yet: the pass that was under way may wait for a Git host that does not answer: plumbline logs "+t.name+" shows what it does")
	return &exitError{code: exitStalled, message: fmt.Sprintf("%s is not %s after %s: %s; %s",
		nodeSyncWord(t.name), map[bool]string{true: "drained", false: "gone"}[t.downTo.keeps()], short(t.timeout.Round(time.Millisecond)), oneLine(message), t.goesOn())}
}
