package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// askEvery is how often a NodeSync is read, and countEvery how often its pools are.
	askEvery, countEvery = 500 * time.Millisecond, 2 * time.Second
	// sayEvery is how often a count is a line of a pipe.
	sayEvery = 15 * time.Second
	// readTime is how long a question to the cluster may take.
	readTime = 30 * time.Second
	// lostFor is how long the cluster may be out of reach once it has answered.
	lostFor = time.Minute
	// sayUnseenAfter is how long the daemon may take to see a request without a word.
	sayUnseenAfter = 3 * time.Second
)

// waitReconciled waits until the daemon has handled the request and the NodeSync has reached the state in
// question, or until a person has to do something.
func (c *cluster) waitReconciled(cmd *cobra.Command, name, requested string, until waitFor, timeout time.Duration) error {
	p, began := newProgress(cmd.ErrOrStderr(), time.Now), time.Now()
	defer p.end()
	var last *v1alpha1.NodeSync
	answers := contact{at: began}
	err := wait.PollUntilContextTimeout(cmd.Context(), askEvery, timeout, true, func(context.Context) (bool, error) {
		// A question is not cut off by the end of the wait: its error would be taken for the cluster's.
		ctx, stop := context.WithTimeout(cmd.Context(), readTime)
		defer stop()
		sync, err := c.nodeSync(ctx, name)
		if answers.lost(err, time.Now()) {
			p.say("the cluster cannot be reached; trying again")
			return false, nil
		}
		if err != nil {
			return false, err
		}
		last = sync
		if is := resting(sync); is != "" {
			return false, fmt.Errorf("%s was %s: nothing is reconciled until `plumbline resume %s -n %s`", nodeSyncWord(name), is, sync.Name, sync.Namespace)
		}
		if sync.Status.LastHandledReconcileAt != requested {
			if time.Since(began) > sayUnseenAfter {
				p.say("the daemon has not looked at it yet")
			}
			return false, nil
		}
		done := until.reached(sync)
		p.say(until.message(sync))
		if !done && !conditions.IsReady(sync) && p.countDue() {
			p.count(c.countPools(ctx, sync))
		}
		return done, nil
	})
	p.end()
	switch {
	case err == nil:
		return until.exit(last)
	case errors.Is(err, context.DeadlineExceeded) && answers.err != nil:
		return answers.err
	case errors.Is(err, context.DeadlineExceeded) && time.Since(began) >= timeout:
		return &exitError{code: exitStalled, message: c.notDone(cmd.Context(), name, last, requested, until, timeout)}
	case errors.Is(err, context.Canceled):
		return &exitError{code: exitFailed, message: c.stopped(context.WithoutCancel(cmd.Context()), last, requested)}
	}
	return err
}

// stopped is what is printed if the user ends a wait, with the reason if no daemon leads and that is quickly found out.
func (c *cluster) stopped(ctx context.Context, last *v1alpha1.NodeSync, requested string) string {
	ctx, stop := context.WithTimeout(ctx, askEvery)
	defer stop()
	why := c.withoutDaemon(ctx, time.Now)
	switch {
	case why != "":
		return "stopped waiting; " + why
	case last == nil || last.Status.LastHandledReconcileAt != requested:
		return "stopped waiting; the daemon has not looked at it yet"
	default:
		return "stopped waiting"
	}
}

// contact is when the cluster answered last, and the error since then.
type contact struct {
	at  time.Time
	err error
}

// lost says that the cluster is out of reach, and may be back soon: an API server is upgraded, a
// laptop changes its network.
func (c *contact) lost(err error, now time.Time) bool {
	if !errors.Is(err, errUnreachable) {
		c.at, c.err = now, nil
		return false
	}
	c.err = err
	return now.Sub(c.at) < lostFor
}

// notDone says what was waited for until the time was over.
func (c *cluster) notDone(ctx context.Context, name string, last *v1alpha1.NodeSync, requested string, until waitFor, timeout time.Duration) string {
	words := fmt.Sprintf("%s is not done after %s", nodeSyncWord(name), short(timeout.Round(time.Millisecond)))
	if last == nil || last.Status.LastHandledReconcileAt != requested {
		if why := c.withoutDaemon(ctx, time.Now); why != "" {
			return words + ": " + why
		}
		return words + ": the daemon has not looked at it; see what it logs: plumbline logs"
	}
	words += ": " + oneLine(until.message(last))
	if why := c.withoutDaemon(ctx, time.Now); why != "" {
		return words + "; " + why
	}
	return words + "; the daemon continues"
}

// countPools counts the NodePools of a NodeSync, and those that are Ready; none where they cannot
// be read.
func (c *cluster) countPools(ctx context.Context, sync *v1alpha1.NodeSync) (ready, all int) {
	kind, _ := render.KindOf(render.NodePool)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GVK)
	label, _ := plan.OwnerOf(sync.Namespace, sync.Name).Label()
	if err := c.List(ctx, list, client.MatchingLabels{v1alpha1.OwnerLabel: label}); err != nil {
		return 0, 0
	}
	for i := range list.Items {
		if observe.Ready(plan.NewObject(&list.Items[i])).Ready {
			ready++
		}
	}
	return ready, len(list.Items)
}

// progress is what is printed while a command waits: on a terminal one line that moves, in a pipe a line
// for each thing that is waited for, and a count now and then.
type progress struct {
	out io.Writer
	// width of the terminal; 0 for everything else.
	width int
	now   func() time.Time
	// said is what is waited for, and counts how far that is.
	said, counts string
	// shown is the line that stands on the terminal.
	shown             string
	counted, reported time.Time
}

func newProgress(out io.Writer, now func() time.Time) *progress {
	return &progress{out: out, width: widthOf(out), now: now}
}

// say says what is waited for, once.
func (p *progress) say(what string) {
	if what = redact.Visible(what); what == p.said || what == "" {
		return
	}
	p.said, p.counts, p.reported = what, "", p.now()
	if p.width == 0 {
		fmt.Fprintln(p.out, what)
		return
	}
	p.show()
}

// countDue says that it is time to count again.
func (p *progress) countDue() bool {
	if p.now().Sub(p.counted) < countEvery {
		return false
	}
	p.counted = p.now()
	return true
}

// count says how many of the NodePools are Ready.
func (p *progress) count(ready, all int) {
	counts := fmt.Sprintf("%d/%d NodePools Ready", ready, all)
	if all == 0 || counts == p.counts {
		return
	}
	if p.width > 0 {
		p.counts = counts
		p.show()
		return
	}
	if p.counts == "" && ready < all || p.now().Sub(p.reported) >= sayEvery {
		p.counts, p.reported = counts, p.now()
		fmt.Fprintln(p.out, counts)
	}
}

// show writes the line again (ECMA-48: EL).
func (p *progress) show() {
	line := oneLine(p.said)
	if p.counts != "" {
		line = p.counts + ": " + line
	}
	if runes := []rune(line); len(runes) >= p.width {
		line = string(runes[:max(p.width-2, 0)]) + "…"
	}
	fmt.Fprint(p.out, "\r\x1b[K"+line)
	p.shown = line
}

// end leaves the last thing that was waited for in full, and the cursor at the beginning of a line.
func (p *progress) end() {
	if p.shown == "" {
		return
	}
	fmt.Fprint(p.out, "\r\x1b[K"+p.said+"\n")
	p.shown = ""
}
