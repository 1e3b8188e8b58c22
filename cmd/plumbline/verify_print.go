package main

import (
	"fmt"
	"io"

	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/redact"
)

// writeReport prints a report as -o says.
func writeReport(out io.Writer, output format, report leftover.Report) error {
	switch output {
	case formatJSON:
		return writeJSON(out, report, redact.VisibleJSON)
	case formatJUnit:
		text, err := report.JUnit()
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	default:
	}
	printReport(&visibleWriter{out}, report)
	return nil
}

// printReport shows a report to people: what is left and what is kept, and each question without an
// answer in full.
func printReport(out io.Writer, report leftover.Report) {
	fmt.Fprintf(out, "cluster %s in %s of account %s\n", report.Cluster, report.Region, report.Account)
	t, rows := newFittedTable(out, "LEFT", "ID", "ZONE", "STATE", "WHAT"), 0
	add := func(kind string, items []leftover.Item) {
		for _, item := range items {
			t.AppendRow([]any{kind, item.ID, orNone(item.Zone), orNone(item.State), orNone(item.What)})
			rows++
		}
	}
	for _, kind := range report.Kinds {
		add(leftover.Noun(kind.Kind), kind.Left)
	}
	for _, kind := range report.Kinds {
		add(leftover.Noun(kind.Kind)+" (kept)", kind.Kept)
	}
	if rows > 0 {
		fmt.Fprintln(out)
		t.Render()
	}
	if report.Unanswered() {
		fmt.Fprintln(out)
	}
	for _, kind := range report.Kinds {
		if kind.Error != "" {
			fmt.Fprintf(out, "%ss: %s\n", leftover.Noun(kind.Kind), kind.Error)
		}
	}
	if words := report.Misplaced(); words != "" {
		fmt.Fprintln(out, "\n"+words)
	}
	if report.Gone {
		fmt.Fprintln(out, "nothing is left: AWS was asked about instances, volumes, network interfaces, launch templates and instance profiles")
	}
}
