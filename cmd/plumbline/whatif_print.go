package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/reconcile/whatif"
	"github.com/plumbline-dev/plumbline/redact"
)

// mostPods is how many pods are listed; -o json has all.
const mostPods = 20

// print shows a what-if to people.
func (r *whatIfReport) print(out io.Writer) {
	if r == nil {
		return
	}
	fmt.Fprintln(out, "\nWhat if all nodes that change ended at once (Karpenter's own simulation):")
	for _, line := range r.lines(redact.Visible) {
		fmt.Fprintln(out, "  "+line)
	}
}

// printMarkdown shows a what-if in a comment on a pull request.
func (r *whatIfReport) printMarkdown(out io.Writer) {
	if r == nil {
		return
	}
	fmt.Fprint(out, "\n<details><summary>What if all nodes that change ended at once (Karpenter's own simulation)</summary>\n\n")
	for _, line := range r.lines(code) {
		fmt.Fprintln(out, strings.Replace("- "+line, "-   ", "  - ", 1))
	}
	fmt.Fprint(out, "\n</details>\n")
}

// lines are what it comes to. quote is for names and words of the cluster; two blanks begin what
// belongs to the line before.
func (r *whatIfReport) lines(quote func(string) string) []string {
	if r.Unavailable != "" {
		return []string{"unavailable: " + quote(r.Unavailable)}
	}
	lines := []string{fmt.Sprintf("%s end, %s scheduled again", english.Plural(r.Ending, "node", ""), isOrAre(r.Leaving))}
	for _, pool := range r.Unlaunchable {
		lines = append(lines, fmt.Sprintf("no instance type of %s meets %s: it can launch no node", quote(r.Region), quote("NodePool/"+pool)))
	}
	lines = append(lines, bulleted("pods that move:", r.Moves, func(m whatif.Move) string { return moved(quote, m) })...)
	lines = append(lines, bulleted(english.Plural(len(r.Nowhere), "pod", "")+" with nowhere to go:", r.Nowhere, func(s whatif.Stranded) string {
		return fmt.Sprintf("%s (%s): %s", quote(s.Pod), place(quote, s), quote(s.Reason))
	})...)
	lines = append(lines, bulleted("pods that may not be evicted, and keep their nodes:", r.Staying, func(b whatif.Blocked) string {
		return fmt.Sprintf("%s on %s: %s", quote(b.Pod), quote(b.Node), quote(b.Why))
	})...)
	lines = append(lines, bulleted("pending pods that get a place by this change:", r.Placed, quote)...)
	lines = append(lines, bulleted("new nodes (EC2 Fleet has the last word on the type):", r.New, func(n whatif.NewNodes) string { return launched(quote, n) })...)
	lines = append(lines, costs(r.Cost)...)
	for _, note := range r.Notes {
		lines = append(lines, "note: "+quote(note))
	}
	return lines
}

// bulleted is a heading with what belongs to it, cut where it is long; nothing where nothing does.
func bulleted[T any](heading string, of []T, say func(T) string) []string {
	if len(of) == 0 {
		return nil
	}
	lines := []string{heading}
	for _, one := range of[:min(len(of), mostPods)] {
		lines = append(lines, "  "+say(one))
	}
	if more := len(of) - mostPods; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more (-o json has all)", more))
	}
	return lines
}

func moved(quote func(string) string, m whatif.Move) string {
	where := "nodes that are there"
	if m.New {
		where = "new nodes"
	}
	return fmt.Sprintf("%s of %s to %s%s", english.Plural(m.Pods, "pod", ""), quote(poolOr(m.From)), where, ofPool(quote, m.To))
}

func isOrAre(pods int) string {
	if pods == 1 {
		return "1 pod is"
	}
	return fmt.Sprintf("%d pods are", pods)
}

func poolOr(pool string) string {
	if pool == "" {
		return "no pool"
	}
	return pool
}

func ofPool(quote func(string) string, pool string) string {
	if pool == "" {
		return " outside of NodePools"
	}
	return " in " + quote(pool)
}

func place(quote func(string) string, s whatif.Stranded) string {
	switch {
	case s.Already:
		return "pending today, and not helped"
	case s.Node == "":
		return "pending today, and would get a place without this change"
	}
	return quote(s.Pool) + ", node " + quote(s.Node)
}

func launched(quote func(string) string, n whatif.NewNodes) string {
	last, types := len(n.Types)-1, "no instance type"
	switch {
	case last == 0:
		types = quote(n.Types[0])
	case last > 0:
		types = fmt.Sprintf("one of %d instance types from %s to %s", last+1, quote(n.Types[0]), quote(n.Types[last]))
	}
	return fmt.Sprintf("%d in %s with %s: %s, %s, %s, %.3f to %.3f an hour each", n.Count, quote(n.Pool), english.Plural(n.Pods, "pod", ""), types,
		strings.Join(n.CapacityTypes, " or "), strings.Join(n.Zones, ", "), n.Lowest, n.Highest)
}

// costs are list prices before and after.
func costs(c whatif.Cost) []string {
	lines := []string{fmt.Sprintf("list prices of Karpenter %s an hour: %.2f today, %.2f to %.2f after", embeddedVersion(), c.Before, c.Lowest, c.Highest)}
	if c.PricesOf != "" {
		lines = append(lines, fmt.Sprintf("  they are those of %s, as the list has none of this region: good to compare by, and for nothing else", c.PricesOf))
	}
	if c.Spot > 0 {
		lines = append(lines, fmt.Sprintf("  %s counted by the on-demand price, as the list has none of spot", english.Plural(c.Spot, "spot node is", "spot nodes are")))
	}
	if c.Unpriced > 0 {
		lines = append(lines, fmt.Sprintf("  %s without a price in the list in neither sum", english.Plural(c.Unpriced, "node", "")))
	}
	return lines
}
