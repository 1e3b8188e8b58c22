package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// teardownShow prints the progress of a teardown: bars on a terminal, lines in a pipe, events as JSON.
type teardownShow interface {
	// plan prints what will be deleted.
	plan(l *teardown.Plan) error
	// sentence prints a sentence.
	sentence(words string)
	// progress prints the progress of each definition, and what is waited for.
	progress(all teardown.Departures, message string)
	// report prints what is left in AWS.
	report(report leftover.Report) error
	// end leaves the cursor at the beginning of a line.
	end()
}

func newShow(cmd *cobra.Command, output format, now func() time.Time) teardownShow {
	if output == formatJSON {
		return &eventShow{out: cmd.OutOrStdout(), now: now, printed: map[string]teardown.Departure{}}
	}
	people := peopleShow{out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
	if width := display.Width(people.err); width > 0 {
		return &barShow{peopleShow: people, width: width}
	}
	return &lineShow{peopleShow: people, printed: map[string]teardown.Departure{}}
}

// peopleShow is the common part of bars and lines.
type peopleShow struct{ out, err io.Writer }

func (s *peopleShow) plan(l *teardown.Plan) error {
	printTeardown(&display.Visible{Writer: s.out}, l)
	return nil
}

func (s *peopleShow) report(report leftover.Report) error {
	return writeReport(s.out, formatText, report)
}

// lineShow prints a line for each change.
type lineShow struct {
	peopleShow

	printed map[string]teardown.Departure
	last    string
}

func (s *lineShow) sentence(words string) { fmt.Fprintln(s.err, redact.Visible(words)) }

func (s *lineShow) end() {}

func (s *lineShow) progress(all teardown.Departures, message string) {
	for _, d := range changedDepartures(s.printed, all) {
		s.sentence(departureWords(d))
	}
	if message = oneLine(message); message != "" && message != s.last && !all.DescribedBy(message) {
		s.last = message
		s.sentence(message)
	}
}

// changedDepartures returns the teardown.Departures that have changed, and remembers them.
func changedDepartures(said map[string]teardown.Departure, all teardown.Departures) (changed teardown.Departures) {
	for _, d := range all {
		if d.Phase != "" && said[d.Ref()] != d {
			said[d.Ref()] = d
			changed = append(changed, d)
		}
	}
	return changed
}

// departureWords returns a teardown.Departure as a line.
func departureWords(d teardown.Departure) string {
	if d.Phase == teardown.PhaseGone {
		return d.Ref() + " is gone"
	}
	words := d.Ref() + ": " + d.Phase
	if d.Kind == render.NodePool {
		words += fmt.Sprintf(", %d of %d left", d.Left, d.Of)
	}
	if d.Stalled {
		words += ", stalled"
	}
	if d.Message != "" {
		words += ": " + oneLine(d.Message)
	}
	return words
}

// barShow draws a bar for each NodePool.
type barShow struct {
	peopleShow

	width int
	// lines is the number of lines that the bars take above the cursor.
	lines int
}

func (s *barShow) sentence(words string) {
	s.end()
	fmt.Fprintln(s.err, redact.Visible(words))
}

// end leaves the bars on the screen.
func (s *barShow) end() { s.lines = 0 }

// barWidth is the width of a bar in characters.
const barWidth = 20

// progress redraws the bars (ECMA-48: CPL, ED).
func (s *barShow) progress(all teardown.Departures, message string) {
	if s.lines > 0 {
		fmt.Fprintf(s.err, "\x1b[%dF\x1b[J", s.lines)
	}
	rows := bars(all)
	if message != "" {
		rows = append(rows, oneLine(message))
	}
	for _, row := range rows {
		if runes := []rune(redact.Visible(row)); len(runes) >= s.width {
			row = string(runes[:max(s.width-2, 0)]) + "…"
		}
		fmt.Fprintln(s.err, redact.Visible(row))
	}
	s.lines = len(rows)
}

// bars returns a row for each remaining definition, and for each pool, as many as fit on the screen.
func bars(all teardown.Departures) (rows []string) {
	longest, hidden := 0, 0
	for _, d := range all {
		longest = max(longest, len([]rune(d.Ref())))
	}
	for _, d := range all {
		if d.Phase == teardown.PhaseGone && (d.Kind != render.NodePool || len(all) > screenful) {
			continue
		}
		if len(rows) == screenful {
			hidden++
			continue
		}
		row := d.Ref() + strings.Repeat(" ", longest-len([]rune(d.Ref()))+display.Between)
		if d.Kind == render.NodePool {
			row += barOf(d) + "  "
		}
		if d.Phase != "" {
			row += d.Phase
		}
		if d.Stalled {
			row += ", stalled"
		}
		if d.Message != "" {
			row += ": " + oneLine(d.Message)
		}
		rows = append(rows, strings.TrimRight(row, " "))
	}
	if more := shortlist.More("", hidden); more != "" {
		rows = append(rows, more)
	}
	return rows
}

// barOf returns a bar that shows how much of a pool is terminated.
func barOf(d teardown.Departure) string {
	ended, full := d.Of-d.Left, barWidth
	if d.Of > 0 {
		full = barWidth * ended / d.Of
	}
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full) + fmt.Sprintf("  %d of %d gone", ended, d.Of)
}

// teardownEvent is a line of JSON; Event determines which of the other fields are set.
type teardownEvent struct {
	Time string `json:"time"`
	// Event is plan, message, teardown.Departure or report.
	Event     string              `json:"event"`
	Message   string              `json:"message,omitempty"`
	Plan      *teardown.Plan      `json:"plan,omitempty"`
	Departure *teardown.Departure `json:"departure,omitempty"`
	Report    *leftover.Report    `json:"report,omitempty"`
}

// eventShow prints one event per line.
type eventShow struct {
	out     io.Writer
	now     func() time.Time
	printed map[string]teardown.Departure
	last    string
	// failed is the first error of writing a line.
	failed error
}

func (s *eventShow) print(e teardownEvent) {
	e.Time = s.now().UTC().Format(time.RFC3339)
	line, err := json.Marshal(e)
	if err == nil {
		_, err = fmt.Fprintln(s.out, redact.VisibleJSON(string(line)))
	}
	s.failed = errors.Join(s.failed, err)
}

func (s *eventShow) plan(l *teardown.Plan) error {
	s.print(teardownEvent{Event: "plan", Plan: l})
	return s.failed
}

func (s *eventShow) sentence(words string) {
	if words != "" && words != s.last {
		s.last = words
		s.print(teardownEvent{Event: "message", Message: words})
	}
}

func (s *eventShow) progress(all teardown.Departures, message string) {
	for _, d := range changedDepartures(s.printed, all) {
		s.print(teardownEvent{Event: "departure", Departure: &d})
	}
	s.sentence(message)
}

func (s *eventShow) report(report leftover.Report) error {
	s.print(teardownEvent{Event: "report", Report: &report})
	return s.failed
}

func (s *eventShow) end() {}

// planTeardown returns what a NodeSync has, and what is kept.
func (c *clusterAccess) planTeardown(ctx context.Context, sync *v1alpha1.NodeSync, downTo teardown.Level) (*teardown.Plan, error) {
	claims := &karpv1.NodeClaimList{}
	if err := c.List(ctx, claims); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, explain(err, "list NodeClaims")
	}
	lives := teardown.Cluster{Claims: claims.Items, Applied: func() (map[string]types.UID, error) { return c.appliedPools(ctx, sync) }}
	for _, kind := range render.Kinds() {
		objects, err := definitionsOf(ctx, c, kind)
		if err != nil {
			return nil, err
		}
		lives.Definitions = append(lives.Definitions, objects...)
	}
	return teardown.Make(sync, downTo, lives)
}

// printTeardown prints what a teardown deletes, and what it keeps.
func printTeardown(out io.Writer, l *teardown.Plan) {
	fmt.Fprintf(out, "nodesync/%s of cluster %s in %s, account %s\n\n", l.NodeSync, l.Cluster, l.Region, l.Account)
	header := "DELETED"
	if l.DownTo.Keeps() {
		header = "LOSES ITS NODES"
	}
	t := display.NewTable(out, header, "NODECLAIMS")
	for _, object := range l.Objects {
		count := ""
		if object.Kind == render.NodePool {
			count = fmt.Sprint(object.NodeClaims)
		}
		name := object.Kind + "/" + object.Name
		if object.Gone {
			name += " (deleted already)"
		}
		t.AppendRow([]any{name, count})
	}
	if !l.DownTo.Keeps() {
		t.AppendRow([]any{"NodeSync/" + l.NodeSync, ""})
	}
	t.Render()
	fmt.Fprintf(out, "\n%s, %s, %s in EC2\n",
		english.Plural(l.NodeClaims, "NodeClaim", ""), english.Plural(l.Nodes, "Node", ""), english.Plural(l.Instances, "instance", ""))
	if l.Karpenter != "" {
		fmt.Fprintf(out, "deleted afterwards, once nothing is left in AWS: %s\n", l.Karpenter)
	}
	if l.Stack != "" {
		fmt.Fprintf(out, "deleted last: stack %s, with the roles, the policies and the queue that plumbline bootstrap has made\n", l.Stack)
	}
	if len(l.Stays) > 0 {
		fmt.Fprintf(out, "stays: %s\n", strings.Join(l.Stays, "; "))
	}
	if l.Controller != "" {
		fmt.Fprintln(out, l.Controller)
	}
	if l.WithoutDaemon != "" {
		as := ""
		if l.As != "" {
			as = ", as " + l.As + ", which the deletion guard lets delete"
		}
		fmt.Fprintf(out, "%s: this command takes the lease and terminates the nodes itself%s\n", l.WithoutDaemon, as)
	}
	if l.DownTo.Keeps() {
		fmt.Fprintf(out, "the NodePools stay and launch no nodes until `plumbline resume %s -n %s`\n", l.NodeSync, l.Namespace)
		return
	}
	for _, applier := range l.Appliers {
		if l.Suspends {
			fmt.Fprintf(out, "%s, which is suspended first\n", applier)
			continue
		}
		fmt.Fprintf(out, "%s, which may create it again: remove it there first, or use --suspend-appliers\n", applier)
	}
}
