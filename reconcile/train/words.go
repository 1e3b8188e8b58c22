package train

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// closedBy is in the title of a pull request that plumbline has closed: such a one may be opened again.
	closedBy = " (closed by plumbline: "
	// maxTitle limits a title: GitHub allows 256 characters.
	maxTitle = 240
	// trailer precedes the aliases in the message of a commit.
	trailer = "Image: "
	arrow   = " -> "
)

// titleOf returns the title of the pull request, and of its commit.
func titleOf(p Proposal, cluster string) string {
	verb := "Update"
	if p.Pins {
		verb = "Pin"
	}
	return bounded(fmt.Sprintf("%s the AMIs of %s to %s", verb, redact.Visible(cluster), p.title()), maxTitle)
}

// closedTitle returns the title of a closed pull request.
func closedTitle(title, why string) string {
	end := closedBy + bounded(why, maxTitle/2) + ")"
	return bounded(title, maxTitle-len(end)) + end
}

func bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:max(0, most-len("…"))], "") + "…"
}

// message returns the message of the commit. It names what the commit replaces: the commit is recognised by that.
func message(p Proposal, nodeSync, cluster string) string {
	lines := []string{titleOf(p, cluster), "", "By NodeSync " + nodeSync + ".", ""}
	for _, c := range changesOf(p) {
		lines = append(lines, trailer+c.From+arrow+c.To)
	}
	return strings.Join(lines, "\n") + "\n"
}

// changesOf returns the aliases that a proposal replaces, each once.
func changesOf(p Proposal) (changes []render.AliasChange) {
	for _, r := range p.Replace {
		c := render.AliasChange{From: r.From, To: r.To}
		if !slices.Contains(changes, c) {
			changes = append(changes, c)
		}
	}
	return changes
}

// changesIn returns those in the message of a commit.
func changesIn(message string) (changes []render.AliasChange) {
	for line := range strings.Lines(message) {
		rest, found := strings.CutPrefix(strings.TrimRight(line, "\n"), trailer)
		from, to, both := strings.Cut(rest, arrow)
		if found && both {
			changes = append(changes, render.AliasChange{From: from, To: to})
		}
	}
	return changes
}

// aliasesOf returns what a proposal replaces, for the status.
func aliasesOf(p Proposal) (words []string) {
	for _, c := range changesOf(p) {
		words = append(words, c.From+" → "+c.To)
	}
	return words
}

// bodyOf returns the body of the pull request, in Markdown.
func bodyOf(p Proposal, sync *v1alpha1.NodeSync, cluster string, files []string, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "AMIs of the cluster %s, for NodeSync %s.\n\n", report.Code(cluster), report.Code(sync.Name))
	b.WriteString("| EC2NodeClass | from | to | published | release notes |\n|---|---|---|---|---|\n")
	for _, r := range p.Replace {
		notes := ""
		if r.Notes != "" {
			notes = fmt.Sprintf("[notes](%s)", r.Notes)
		}
		fmt.Fprintf(&b, "| %s | %s%s | %s | %s | %s |\n", report.Code(strings.Join(r.Classes, ", ")), report.Code(r.From), stateOf(r, now), report.Code(r.To),
			dated(r.Published, now), notes)
	}
	b.WriteString("\n")
	if p.Pins {
		b.WriteString("An alias `@latest` has Karpenter replace the nodes whenever AWS publishes a release. The pinned form selects the same AMIs as now, so that no node is replaced, and each later release is a reviewed commit. It is proposed once: if you close this, it is not opened again.\n\n")
	} else {
		b.WriteString("If you close this, plumbline proposes the next release and not this one. AWS lists security fixes in the release notes, and gives no dates of CVEs for an AMI.\n\n")
	}
	if slices.ContainsFunc(sync.Spec.Report, func(r v1alpha1.Report) bool { return r.PullRequests != nil }) {
		b.WriteString("plumbline reports the effect on nodes in the commit status `/plan` of this pull request.\n\n")
	} else {
		b.WriteString("To see the effect on nodes here, set `pullRequests` in the NodeSync's `spec.report`, or run `plumbline plan` on this branch.\n\n")
	}
	if len(files) > 0 {
		b.WriteString("Files:\n\n")
		for _, name := range files {
			fmt.Fprintf(&b, "- %s\n", report.Code(name))
		}
		b.WriteString("\n")
	}
	if verify := sync.Spec.Source.Verification(); verify != nil {
		b.WriteString("**The commit is not signed**, but this NodeSync requires a signature: merge it with a commit signed by a trusted key" +
			signedRange(verify.Mode) + ".\n")
	}
	return b.String()
}

// signedRange returns what a NodeSync needs in addition if each commit must be signed.
func signedRange(mode v1alpha1.VerificationMode) string {
	if mode == v1alpha1.VerifyRange {
		return ", and squash this into it"
	}
	return ""
}

// stateOf returns the age of the AMIs to replace, and what AWS has done with them.
func stateOf(r Replacement, now time.Time) string {
	switch {
	case r.Withdrawn:
		return " (withdrawn: no node can be launched)"
	case r.Deprecated:
		return " (deprecated)"
	case r.Before.IsZero():
		return ""
	}
	return fmt.Sprintf(" (%s)", dated(r.Before, now))
}

// dated returns a date, with its age.
func dated(at, now time.Time) string {
	if at.IsZero() {
		return "unknown"
	}
	return fmt.Sprintf("%s, %s old", at.UTC().Format(time.DateOnly), english.Plural(int(now.Sub(at)/(24*time.Hour)), "day", ""))
}
