package main

import (
	"fmt"
	"io"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// print shows the report to people.
func (r statusReport) print(out io.Writer) error {
	fmt.Fprintf(out, "nodesync/%s  Ready=%s %s\n", r.Name, r.Ready, r.Reason)
	fmt.Fprintf(out, "  %s\n\n", oneLine(r.Message))
	fmt.Fprintf(out, "revision   %s", orNone(render.ShortRevision(r.Applied)))
	if r.Attempted != r.Applied {
		fmt.Fprintf(out, "  (working on %s)", render.ShortRevision(r.Attempted))
	}
	fmt.Fprintln(out)
	if k := r.Karpenter; k != nil {
		fmt.Fprintf(out, "karpenter  %s %s in %s, cluster %s in %s\n", k.Management, k.Version, k.Namespace, k.Cluster, k.Region)
	}
	fmt.Fprintf(out, "cloud      verified: %s\n", orNone(r.Cloud))
	if r.Suspended {
		fmt.Fprintln(out, "suspended  nothing is done until `plumbline resume`")
	}
	if w := r.Waiting; w != nil {
		fmt.Fprintf(out, "waiting    for %s since %s: %s\n", w.For, w.Since.UTC().Format("15:04:05Z"), w.Message)
	}
	r.printTables(out)
	return nil
}

func (r statusReport) printTables(out io.Writer) {
	if len(r.Stages) > 0 {
		fmt.Fprintln(out)
		t := newTable(out, "STAGE", "STATE", "MESSAGE")
		for _, s := range r.Stages {
			t.AppendRow([]any{s.Name, s.State, oneLine(s.Message)})
		}
		t.Render()
	}
	if len(r.Pools) > 0 {
		fmt.Fprintln(out)
		t := newTable(out, "POOL", "READY", "NODES", "DRAINING")
		for _, p := range r.Pools {
			t.AppendRow([]any{p.Name, p.Ready, p.Nodes, p.Draining})
		}
		t.Render()
	}
	if len(r.Removals) > 0 {
		fmt.Fprintln(out)
		t := newTable(out, "REMOVAL", "PHASE", "LEFT", "SINCE", "WAITS FOR")
		for _, removal := range r.Removals {
			t.AppendRow([]any{removal.Kind + "/" + removal.Name, phaseWord(removal), removal.Remaining, removal.Since.UTC().Format("15:04:05Z"), oneLine(removal.Message)})
		}
		t.Render()
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
