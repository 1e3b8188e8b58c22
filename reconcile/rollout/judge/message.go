package judge

import (
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
)

// named is how many workloads a message names.
const named = 3

// message returns the message of a Verdict.
func (seen *Observation) message(state State, judged []Workload) string {
	var words []string
	for i := range judged {
		if w := &judged[i]; w.State == state && state != Good && (state != Inconclusive || w.Excuse != "") {
			words = append(words, seen.sentence(w))
		}
	}
	if state == Inconclusive && (len(words) == 0 || seen.pods(judged).All == 0 && !judged[0].isUnknown()) {
		words = []string{seen.nothingRan(seen.pods(judged))}
	}
	if state == Good {
		words = seen.good(judged)
	}
	message := shortlist.Items(words, named, "; ")
	if gone := len(seen.Wave.New) - len(seen.New); gone > 0 && len(seen.New) > 0 {
		message += fmt.Sprintf("; %d of %d nodes of the wave no longer exist", gone, len(seen.Wave.New))
	}
	return message
}

// good returns what shows that a wave is good, and what does not count.
func (seen *Observation) good(judged []Workload) []string {
	pods := seen.pods(judged)
	words := []string{fmt.Sprintf("%d of %d pods work on %s", pods.All-pods.Failing-pods.Starting, pods.All, seen.where())}
	for i := range judged {
		if judged[i].Excuse != "" {
			words = append(words, seen.sentence(&judged[i]))
		}
	}
	return words
}

// pods counts the pods on the wave's nodes except those of DaemonSets.
func (seen *Observation) pods(judged []Workload) Count {
	var all Count
	for i := range judged {
		if w := &judged[i]; w.proves() {
			all.All, all.Failing, all.Starting = all.All+w.New.All, all.Failing+w.New.Failing, all.Starting+w.New.Starting
		}
	}
	return all
}

// nothingRan returns why nothing shows that workloads run. pods are those that are not of DaemonSets.
func (seen *Observation) nothingRan(pods Count) string {
	switch {
	case len(seen.New) == 0:
		return fmt.Sprintf("none of %d nodes of the wave exists", len(seen.Wave.New))
	case pods.All > 0:
		return fmt.Sprintf("0 of %d pods on %s are Ready", pods.All, seen.where())
	}
	return "no pods except those of DaemonSets have run on " + seen.where()
}

func (seen *Observation) where() string {
	if len(seen.New) == 1 {
		return "the new node"
	}
	return "the new nodes"
}

// elsewhere returns the nodes with whose pods those on the wave's nodes are compared.
func (seen *Observation) elsewhere() string {
	if len(seen.Wave.Old) == 0 {
		return "other nodes"
	}
	return "old ones"
}

// sentence returns how a workload does on the wave's nodes: numbers first, then the cause.
func (seen *Observation) sentence(w *Workload) string {
	if w.Kind == kindNode {
		return w.aboutNodes()
	}
	name := strings.TrimPrefix(w.Namespace+"/"+w.Name, "/")
	if w.State == Undecided {
		return fmt.Sprintf("%d of %d pods of %s still start on %s", w.New.Starting, w.New.All, name, seen.where())
	}
	words := fmt.Sprintf("%d of %d pods of %s fail on %s", w.New.Failing, w.New.All, name, seen.where())
	switch {
	case w.Old.All > 0:
		words += fmt.Sprintf(", %d of %d on %s", w.Old.Failing, w.Old.All, seen.elsewhere())
	case w.Excuse == "":
		words += ", none runs on " + seen.elsewhere()
	}
	return words + w.because()
}

// aboutNodes returns how many nodes have a problem.
func (w *Workload) aboutNodes() string {
	if w.State == Undecided {
		return fmt.Sprintf("%d of %d new nodes still start: %s", w.New.Starting, w.New.All, w.Cause)
	}
	words := fmt.Sprintf("%d of %d new nodes", w.New.Failing, w.New.All)
	if w.Old.All > 0 {
		words += fmt.Sprintf(", %d of %d old ones", w.Old.Failing, w.Old.All)
	}
	return words + w.because()
}

// because returns the cause, and why it does not count.
func (w *Workload) because() string {
	words := ""
	if w.Cause != "" {
		words = ": " + w.Cause
	}
	if w.Excuse != "" {
		words += " (not counted: " + w.Excuse + ")"
	}
	return words
}
