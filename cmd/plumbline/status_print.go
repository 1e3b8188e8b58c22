package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/redact"
)

// rows is how many pools and removals fit on one screen with the rest.
const rows = 10

// print shows the report to people.
func (r statusReport) print(out io.Writer) {
	if r.Unled != "" {
		fmt.Fprintln(out, r.Unled)
		fmt.Fprintf(out, "nodesync/%s: %s\n", r.Name, r.State)
	} else {
		fmt.Fprintf(out, "nodesync/%s: %s%s\n", r.Name, r.State, since(r.Since))
	}
	r.printMessage(out)
	fmt.Fprintln(out)
	fmt.Fprintf(out, "commit     %s\n", r.commitOf())
	if r.Source != "" {
		fmt.Fprintf(out, "source     verified: %s\n", oneLine(r.Source))
	}
	if w := r.Waiting; w != nil {
		fmt.Fprintf(out, "waiting    for %s since %s\n", w.For, clock(w.Since))
	}
	fmt.Fprintf(out, "next       %s\n", r.Next)
	if k := r.Karpenter; k != nil {
		fmt.Fprintf(out, "karpenter  %s in %s, cluster %s in %s\n", strings.TrimSpace(k.Management+" "+k.Version), k.Namespace, k.Cluster, k.Region)
		if t := k.Target; t != nil {
			fmt.Fprintf(out, "charts     %s: %s since %s\n", t.Version, t.Step, clock(t.Since))
		}
	}
	fmt.Fprintf(out, "cloud      verified: %s\n", orNone(r.Cloud))
	if r.Launches != "" {
		fmt.Fprintf(out, "launches   fail: %s\n", r.Launches)
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
	for _, line := range lines[:min(rows, len(lines))] {
		fmt.Fprintf(out, "  %s\n", redact.Visible(line))
	}
	if more := len(lines) - rows; more > 0 {
		fmt.Fprintf(out, "  and %d more lines (-o json has all)\n", more)
	}
}

func (r statusReport) printStages(out io.Writer) {
	if len(r.Stages) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := newTable(out, "STAGE", "STATE", "MESSAGE")
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
	t := newTable(out, "POOL", "READY", "NODES", "DRAINING")
	all := notable(r.Pools)
	for _, p := range all[:min(rows, len(all))] {
		t.AppendRow([]any{p.Name, p.Ready, p.Nodes, p.Draining})
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
		fmt.Fprintf(out, "and %d more: %d not Ready, %d nodes, %d draining (-o json has all)\n", len(all)-rows, unready, more.Nodes, more.Draining)
	}
}

func (r statusReport) printRemovals(out io.Writer) {
	if len(r.Removals) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := newTable(out, "REMOVAL", "PHASE", "LEFT", "SINCE", "WAITS FOR")
	for _, removal := range r.Removals[:min(rows, len(r.Removals))] {
		t.AppendRow([]any{removal.Kind + "/" + removal.Name, phaseWord(removal), removal.Remaining, clock(removal.Since), oneLine(removal.Message)})
	}
	t.Render()
	if more := len(r.Removals) - rows; more > 0 {
		fmt.Fprintf(out, "and %d more (-o json has all)\n", more)
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

// since says since when, at the end of a line.
func since(at *metav1.Time) string {
	if at.IsZero() {
		return ""
	}
	return ", since " + clock(*at)
}

// clock is a point in time with its date: what has stood for days is to be seen.
func clock(at metav1.Time) string { return at.UTC().Format("2006-01-02 15:04:05Z") }

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
