package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	sees "github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// A live status is redrawn every redrawEvery, and its lease read every leaderEvery.
	redrawEvery, leaderEvery = time.Second, 5 * time.Second
	// refusedEvery is how often to read a kind that cannot be watched.
	refusedEvery = 5 * time.Second
	// handledWithin is how long the previous state is shown while the daemon handles a request.
	handledWithin = 10 * time.Second
)

// watchLive draws the status of NodeSyncs each second until the user stops it. It rereads the status when a watch
// reports a change of a NodeSync or of one of Karpenter's kinds.
func (c *clusterAccess) watchLive(cmd *cobra.Command, args []string, all bool) error {
	screen, ok := cmd.OutOrStdout().(terminal)
	if !ok {
		return fmt.Errorf("%T is not a terminal", cmd.OutOrStdout())
	}
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	namespace := c.namespaceOfNodeSyncs(ctx)
	news, leader := newChangeSignal(), &leaderCheck{}
	news.follow(ctx, c, namespace)
	go leader.follow(ctx, c, namespace)
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	board := &statusBoard{args: args, all: all, shown: steady{}}
	return board.follow(ctx, c, screen, news, leader, time.Now(), tick.C)
}

// follow draws the board immediately and with each tick, until the context is done.
func (b *statusBoard) follow(
	ctx context.Context, c *clusterAccess, screen terminal, news *changeSignal, leader *leaderCheck, now time.Time, ticks <-chan time.Time,
) error {
	if _, err := io.WriteString(screen, clearScreen); err != nil {
		return err
	}
	for {
		if changed := news.changedSinceLast(); changed || b.stale(leader.leaderMissing(), now) {
			if err := b.read(ctx, c, leader.leaderMissing(), now); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if err := b.draw(screen, news.note(), now); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // the user has stopped it
		case now = <-ticks:
		}
	}
}

// terminal is a file that is a terminal.
type terminal interface {
	io.Writer
	Fd() uintptr
}

// changeSignal collects what watches report: that something has changed, however often, and which kinds cannot be
// watched.
type changeSignal struct {
	changed chan struct{}

	mu      sync.Mutex
	refused map[string]bool
}

func newChangeSignal() *changeSignal {
	return &changeSignal{changed: make(chan struct{}, 1), refused: map[string]bool{}}
}

// changedSinceLast reports whether something has changed since the last call.
func (n *changeSignal) changedSinceLast() bool {
	select {
	case <-n.changed:
		return true
	default:
		return false
	}
}

func (n *changeSignal) signal() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// note returns which kinds cannot be watched; empty if all can.
func (n *changeSignal) note() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.refused) == 0 {
		return ""
	}
	return fmt.Sprintf("%s cannot be watched: read every %s", strings.Join(slices.Sorted(maps.Keys(n.refused)), ", "), short(refusedEvery))
}

func (n *changeSignal) refuse(kind string, refused bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if delete(n.refused, kind); refused {
		n.refused[kind] = true
	}
}

// follow watches a namespace's NodeSyncs, and Karpenter's kinds.
func (n *changeSignal) follow(ctx context.Context, c *clusterAccess, namespace string) {
	go n.followKind(ctx, c, v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind), client.InNamespace(namespace))
	for _, kind := range sees.Kinds() {
		go n.followKind(ctx, c, kind.GVK)
	}
}

// followKind reports each change that a watch returns. When a watch ends, it starts another and reports a change,
// because it may have missed one.
func (n *changeSignal) followKind(ctx context.Context, c *clusterAccess, kind schema.GroupVersionKind, options ...client.ListOption) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	for ctx.Err() == nil {
		pause := restartPause
		events, err := c.Watch(ctx, list, options...)
		of, _ := render.KindOf(kind.Kind) // a NodeSync has none, and is not optional
		if n.refuse(kind.Kind+"s", err != nil && !sees.Unserved(of, err)); err != nil {
			pause = refusedEvery
		} else {
			for range events.ResultChan() {
				n.signal()
			}
			events.Stop()
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
		n.signal()
	}
}

// leaderCheck knows whether a daemon leads, which takes some seconds to find out.
type leaderCheck struct{ words atomic.Value }

// leaderMissing returns why no daemon leads; empty if one does, or if that is unknown so far.
func (l *leaderCheck) leaderMissing() string {
	words, _ := l.words.Load().(string)
	return words
}

func (l *leaderCheck) follow(ctx context.Context, c client.Reader, namespace string) {
	tick := time.NewTicker(leaderEvery)
	defer tick.Stop()
	for {
		l.words.Store(leaderMissing(ctx, c, namespace, time.Now))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// statusBoard is what a live status shows.
type statusBoard struct {
	args  []string
	all   bool
	shown steady
	// leaderMissing is the value used in the reports; until is when they must be reread, zero if only after a change.
	leaderMissing string
	until         time.Time
	reports       []statusReport
}

// stale reports whether a reread would show something else, although no object has changed.
func (b *statusBoard) stale(unled string, now time.Time) bool {
	return b.reports == nil || b.leaderMissing != unled || !b.until.IsZero() && !now.Before(b.until)
}

// read reads the reports.
func (b *statusBoard) read(ctx context.Context, c *clusterAccess, unled string, now time.Time) error {
	list, err := c.readAll(ctx, false)
	if err != nil {
		return err
	}
	syncs, err := only(list.Items, b.args)
	if err != nil {
		return err
	}
	b.leaderMissing, b.until, b.reports = unled, time.Time{}, []statusReport{}
	for i := range syncs {
		sync, until := b.shown.of(&syncs[i], now)
		if !until.IsZero() && (b.until.IsZero() || until.Before(b.until)) {
			b.until = until
		}
		report := statusReportOf(ctx, c, sync, unled)
		report.all = b.all
		b.reports = append(b.reports, report)
	}
	return nil
}

// draw overwrites what is on the screen, without clearing it first, which would flicker (ECMA-48: CUP, EL, ED).
func (b *statusBoard) draw(screen terminal, note string, now time.Time) error {
	next := &frame{terminal: screen}
	for i := range b.reports {
		b.reports[i].at = now
	}
	if err := writeStatuses(next, formatTable, b.reports); err != nil {
		return err
	}
	if note != "" {
		fmt.Fprintln(next, "\n"+note)
	}
	return next.overwrite()
}

// frame is the next output, as wide as the terminal.
type frame struct {
	bytes.Buffer

	terminal terminal
}

// overwrite writes the frame over what is on the screen.
func (f *frame) overwrite() error {
	_, err := io.WriteString(f.terminal, "\x1b[H"+strings.ReplaceAll(f.String(), "\n", "\x1b[K\n")+"\x1b[J")
	return err
}

// Fd returns the terminal's file descriptor.
func (f *frame) Fd() uintptr { return f.terminal.Fd() }

// steady holds the shown NodeSyncs, by name. While the daemon has not handled a request, it shows the previous state
// for a moment, instead of "unknown".
type steady map[string]steadySync

type steadySync struct {
	sync *v1alpha1.NodeSync
	// awaits is when the unhandled request was first seen; zero if there is none.
	awaits time.Time
}

// of returns what to show of a NodeSync, and, if that is the previous state, until when.
func (s steady) of(sync *v1alpha1.NodeSync, now time.Time) (shown *v1alpha1.NodeSync, until time.Time) {
	before, known := s[sync.Name]
	if !known || !summary.AwaitsRequest(sync) {
		s[sync.Name] = steadySync{sync: sync}
		return sync, time.Time{}
	}
	if before.awaits.IsZero() {
		before.awaits = now
		s[sync.Name] = before
	}
	if until = before.awaits.Add(handledWithin); now.Before(until) {
		return before.sync, until
	}
	return sync, time.Time{}
}

// clearScreen clears a terminal and moves the cursor to its top (ECMA-48: CUP, ED).
const clearScreen = "\x1b[H\x1b[2J"

// restartPause is the pause before restarting a watch that was refused or cut.
const restartPause = time.Second

// watchNodeSyncs prints the list, and each change of it, until the user stops it.
func watchNodeSyncs(cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags, output *objectOutput, all bool, args []string) error {
	if !output.human() {
		return errors.New("--watch prints a table: -o table or -o wide")
	}
	c, err := connect(cmd.Context(), kubeconfig)
	if err != nil {
		return err
	}
	out := &display.Visible{Writer: cmd.OutOrStdout()}
	show := columns{header: true, namespace: all, wide: output.wide()}
	live, printed := display.Width(out) > 0, map[string]string{}
	return c.follow(cmd.Context(), all, args, func(syncs []v1alpha1.NodeSync) error {
		if live {
			_, err := io.WriteString(cmd.OutOrStdout(), clearScreen) // not through display.Visible
			printNodeSyncs(out, syncs, show)
			return err
		}
		if news := changed(syncs, printed); len(news) > 0 {
			printNodeSyncs(out, news, show)
			show.header = false
		}
		return nil
	})
}

// watchStatus prints the status of NodeSyncs, and again after each change: on a terminal each second, in a pipe one
// line for each change.
func (c *clusterAccess) watchStatus(cmd *cobra.Command, output format, args []string, all bool) error {
	if output != formatTable {
		return errors.New("--watch prints text: leave -o out")
	}
	if display.Width(cmd.OutOrStdout()) > 0 {
		return c.watchLive(cmd, args, all)
	}
	out, said := &display.Visible{Writer: cmd.OutOrStdout()}, map[string]string{}
	return c.follow(cmd.Context(), false, args, func(syncs []v1alpha1.NodeSync) error {
		for i := range syncs {
			if line := statusLine(&syncs[i]); said[syncs[i].Name] != line {
				said[syncs[i].Name] = line
				fmt.Fprintln(out, time.Now().UTC().Format(time.TimeOnly)+"Z "+line)
			}
		}
		return nil
	})
}

// statusLine returns the status of a NodeSync in one line.
func statusLine(sync *v1alpha1.NodeSync) string {
	state := summary.StateOf(sync)
	line := "nodesync/" + sync.Name + ": " + stateWith(state, summary.Message(sync))
	if rollout := summary.Of(sync).RolloutMessage(); rollout != "" && !state.OfNodes() {
		line += "; rolling out: " + rollout
	}
	return line
}

// changed returns the NodeSyncs whose resource version was not printed yet, and marks them as printed.
func changed(syncs []v1alpha1.NodeSync, printed map[string]string) (news []v1alpha1.NodeSync) {
	for i := range syncs {
		name := client.ObjectKeyFromObject(&syncs[i]).String()
		if printed[name] != syncs[i].ResourceVersion {
			printed[name] = syncs[i].ResourceVersion
			news = append(news, syncs[i])
		}
	}
	return news
}

// follow calls seen with the NodeSyncs, and again after each change, until the user stops it.
func (c *clusterAccess) follow(ctx context.Context, all bool, args []string, seen func([]v1alpha1.NodeSync) error) error {
	for ctx.Err() == nil {
		if err := c.followOnce(ctx, all, args, seen); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil // the user has stopped it
}

// followOnce calls seen, and waits for the next change.
func (c *clusterAccess) followOnce(ctx context.Context, all bool, args []string, seen func([]v1alpha1.NodeSync) error) error {
	list, err := c.readAll(ctx, all)
	if err != nil {
		return err
	}
	syncs, err := only(list.Items, args)
	if err != nil {
		return err
	}
	if err := seen(syncs); err != nil {
		return err
	}
	return c.nextChange(ctx, all, list.ResourceVersion)
}

// only returns the NodeSyncs of these names; without names all of them.
func only(syncs []v1alpha1.NodeSync, args []string) (found []v1alpha1.NodeSync, err error) {
	if len(args) == 0 {
		return syncs, nil
	}
	for _, arg := range args {
		name, err := nameOf(arg)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(syncs, func(n v1alpha1.NodeSync) bool { return n.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("NodeSync %s does not exist; `plumbline get -A` lists all", name)
		}
		found = append(found, syncs[i])
	}
	return found, nil
}

// nextChange returns when a NodeSync has changed since a list was read, or a while after the watch has ended without a
// change.
func (c *clusterAccess) nextChange(ctx context.Context, all bool, since string) error {
	options := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: since}}
	if !all {
		options.Namespace = c.namespaceOfNodeSyncs(ctx)
	}
	events, err := c.Watch(ctx, &v1alpha1.NodeSyncList{}, options)
	if err != nil {
		return explain(err, "watch NodeSyncs")
	}
	defer events.Stop()
	select {
	case <-ctx.Done():
		return nil
	case _, news := <-events.ResultChan():
		if news {
			return nil
		}
	}
	wait := time.NewTimer(restartPause)
	defer wait.Stop()
	select {
	case <-ctx.Done():
	case <-wait.C:
	}
	return nil
}

// stateWith joins a state and its message, which may start with the same word.
func stateWith(is summary.State, words string) string {
	if strings.HasPrefix(words, string(is)) {
		return words
	}
	return string(is) + ": " + words
}
