package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/nodes"
	"github.com/plumbline-dev/plumbline/redact"
)

// screenful is how many pools and removals fit on one screen with the rest.
const screenful = 10

// rows is how many of them are shown.
func (r statusReport) rows() int {
	if r.all {
		return math.MaxInt
	}
	return screenful
}

// print shows the report to people.
func (r statusReport) print(out io.Writer) {
	if r.Unled != "" {
		fmt.Fprintln(out, r.Unled)
		fmt.Fprintf(out, "nodesync/%s: %s\n", r.Name, r.State)
	} else {
		fmt.Fprintf(out, "nodesync/%s: %s%s\n", r.Name, r.State, lastedFor(r.Since))
	}
	r.printMessage(out)
	fmt.Fprintln(out)
	fmt.Fprintf(out, "commit     %s\n", r.commitOf())
	if r.Source != "" {
		fmt.Fprintf(out, "source     verified: %s\n", oneLine(r.Source))
	}
	if w := r.Waiting; w != nil {
		fmt.Fprintf(out, "waiting    for %s%s\n", w.For, lastedFor(&w.Since))
	}
	fmt.Fprintf(out, "next       %s\n", r.Next)
	if k := r.Karpenter; k != nil {
		fmt.Fprintf(out, "karpenter  %s in %s, cluster %s in %s\n", strings.TrimSpace(k.Management+" "+k.Version), k.Namespace, k.Cluster, k.Region)
		if t := k.Target; t != nil {
			fmt.Fprintf(out, "charts     %s: %s%s\n", t.Version, t.Step, lastedFor(&t.Since))
		}
	}
	fmt.Fprintf(out, "cloud      verified: %s\n", orNone(r.Cloud))
	if r.Launches != "" {
		fmt.Fprintf(out, "launches   fail: %s\n", r.Launches)
	}
	if r.Rollout != nil {
		fmt.Fprintf(out, "rollout    %s%s\n", oneLine(nodes.RolloutWords(*r.Rollout)), lastedFor(&r.Rollout.Since))
	}
	if r.NodeDrift != "" {
		fmt.Fprintf(out, "nodes      drift: %s\n", r.NodeDrift)
	}
	if r.Extra != "" {
		fmt.Fprintf(out, "fields     extra: %s\n", oneLine(r.Extra))
	}
	r.printStages(out)
	r.printPools(out)
	r.printRemovals(out)
}

// printMessage shows what the daemon says: of many mistakes in a commit, the first.
func (r statusReport) printMessage(out io.Writer) {
	if r.Message == "" {
		return
	}
	lines := strings.Split(strings.TrimSpace(r.Message), "\n")
	rows := min(r.rows(), len(lines))
	for _, line := range lines[:rows] {
		fmt.Fprintf(out, "  %s\n", redact.Visible(line))
	}
	if more := len(lines) - rows; more > 0 {
		fmt.Fprintf(out, "  and %d more lines (--all)\n", more)
	}
}

func (r statusReport) printStages(out io.Writer) {
	if len(r.Stages) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := newFittedTable(out, "STAGE", "STATE", "MESSAGE")
	for _, s := range r.Stages {
		t.AppendRow([]any{s.Name, s.State, oneLine(s.Message)})
	}
	t.Render()
}

// printPools shows the pools that a person looks for, and sums the others up.
func (r statusReport) printPools(out io.Writer) {
	if r.Unread != "" {
		fmt.Fprintf(out, "\npools      not shown: %s\n", r.Unread)
	}
	if len(r.Pools) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := newTable(out, "POOL", "READY", "NODES", "DRIFTED", "DRAINING", "LIMIT USED", "AGE")
	all := notable(r.Pools)
	rows := min(r.rows(), len(all))
	for _, p := range all[:rows] {
		t.AppendRow([]any{p.Name, truth(p.Ready), p.Nodes, p.Drifted, p.Draining, p.LimitUsed, age(p.Created)})
	}
	t.Render()
	if len(all) > rows {
		more := poolReport{}
		unready := 0
		for _, p := range all[rows:] {
			more.Nodes += p.Nodes
			more.Draining += p.Draining
			if !p.Ready {
				unready++
			}
		}
		fmt.Fprintf(out, "and %d more: %d not Ready, %s, %d draining (--all)\n", len(all)-rows, unready, english.Plural(int(more.Nodes), "node", ""), more.Draining)
	}
}

// truth is a condition's status.
func truth(is bool) metav1.ConditionStatus {
	if is {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

func (r statusReport) printRemovals(out io.Writer) {
	if len(r.Removals) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := newFittedTable(out, "REMOVAL", "PHASE", "LEFT", "AGE", "WAITS FOR")
	rows := min(r.rows(), len(r.Removals))
	for _, removal := range r.Removals[:rows] {
		t.AppendRow([]any{removal.Kind + "/" + removal.Name, phaseWord(removal), removal.Remaining, age(removal.Since), oneLine(removal.Message)})
	}
	t.Render()
	if more := len(r.Removals) - rows; more > 0 {
		fmt.Fprintf(out, "and %d more (--all)\n", more)
	}
}

func phaseWord(r v1alpha1.Removal) string {
	if r.Stalled != nil {
		return string(r.Phase) + ", Stalled"
	}
	return string(r.Phase)
}

func orNone(word string) string {
	if word == "" {
		return "none yet"
	}
	return word
}

// lastedFor says for how long something has been so, at the end of a line.
func lastedFor(since *metav1.Time) string {
	if since.IsZero() {
		return ""
	}
	return ", for " + age(*since)
}

// short is a duration without the zeros that Go prints: 1m, not 1m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
