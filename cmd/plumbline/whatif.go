package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// whatIfOptions are the flags of a what-if.
type whatIfOptions struct {
	on       bool
	snapshot string
}

func (o *whatIfOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.on, "what-if", false, "simulate with Karpenter's own scheduling where pods would go, and what nodes would cost")
	cmd.Flags().StringVar(&o.snapshot, "snapshot", "",
		"compare the folder with this file, written by plumbline snapshot, instead of a cluster")
}

// check returns an error for missing or conflicting flags of a what-if.
func (o *whatIfOptions) check(of string, isFolder bool, against string) error {
	if !isFolder && o.snapshot != "" {
		return fmt.Errorf("%s is not a folder: --snapshot compares a folder with a file written by plumbline snapshot", of)
	}
	if o.on && isFolder && against == "" && o.snapshot == "" {
		return errors.New("--what-if needs a cluster (--against NODESYNC) or a file written by plumbline snapshot (--snapshot FILE)")
	}
	return nil
}

// whatIfReport is the result of a what-if.
type whatIfReport struct {
	// Unavailable is why there is no result.
	Unavailable string `json:"unavailable,omitempty"`
	*simulate.Outcome
}

// simulate simulates a Plan in a capture of the cluster. If that is impossible, the report contains the reason, and the
// rest of the plan remains.
func (o *planOptions) simulate(ctx context.Context, made *plan.Plan, live plan.Live, taken *simulate.Capture) (*whatIfReport, error) {
	out, err := o.outcome(ctx, made, live, taken)
	report := &whatIfReport{Outcome: out}
	if err != nil {
		report.Unavailable = err.Error()
	}
	return report, ctx.Err()
}

// simulateCluster simulates a Plan in the cluster as it is now.
func (o *planOptions) simulateCluster(ctx context.Context, c *clusterAccess, made *plan.Plan, live plan.Live) (*whatIfReport, error) {
	taken, err := simulate.ReadCapture(ctx, c, time.Now())
	if err != nil {
		return nil, explain(err, "simulate where pods would go")
	}
	return o.simulate(ctx, made, live, taken)
}

func (o *planOptions) outcome(ctx context.Context, made *plan.Plan, live plan.Live, taken *simulate.Capture) (*simulate.Outcome, error) {
	if taken.Catalog == nil && !o.aws {
		return nil, fmt.Errorf("the instance types of %s are unknown without AWS: add --aws, here or to plumbline snapshot",
			orUnknown(taken.Region()))
	}
	if taken.Catalog == nil {
		var err error
		if taken.Catalog, err = catalogOf(ctx, taken.Region()); err != nil {
			return nil, err
		}
	}
	offered, err := offers.New(ctx, taken.Catalog, taken.Settings.Settings)
	if err != nil {
		return nil, err
	}
	return review.WhatIf(ctx, made, live, taken, offered)
}

func orUnknown(region string) string {
	if region == "" {
		return "the cluster's region"
	}
	return region
}

// planSnapshot compares a folder with a snapshot. It knows of the NodeSync only by its label: the definitions with that
// label are its own, and are removed if Git no longer contains them.
func (o *planOptions) planSnapshot(ctx context.Context, folder string) (*planned, error) {
	taken, err := readSnapshot(o.whatIf.snapshot)
	if err != nil {
		return nil, err
	}
	r, err := renderFolder(ctx, folder, o.crds, true)
	if err != nil {
		return nil, err
	}
	under := *taken
	under.Definitions = taken.WithUserData(userDataOf(r.set))
	served, err := simulate.NewCaptureClient(&under)
	if err != nil {
		return nil, fmt.Errorf("read the snapshot %s: %w", o.whatIf.snapshot, err)
	}
	live, err := cluster.Live(ctx, served)
	if err != nil {
		return nil, fmt.Errorf("read the snapshot %s: %w", o.whatIf.snapshot, err)
	}
	live.Served = true
	owner, err := review.OwnerIn(live, o.against)
	if err != nil {
		return nil, err
	}
	made, err := plan.Make(ctx, r.set, live, plan.Policy{Owner: owner, NewRevision: true, Now: taken.TakenAt}, r.schema)
	if err != nil {
		return nil, err
	}
	made.Warnings = append(made.Warnings, r.set.Warnings...)
	made.Warnings = append(made.Warnings, fmt.Sprintf("compared with a snapshot of %s: charts, other NodeSyncs and the guard's settings are unknown", taken.TakenAt.Format(time.DateTime+" MST")))
	if r.unchecked != "" {
		made.Warnings = append(made.Warnings, r.unchecked)
	}
	whole := &planned{Plan: made, live: live}
	if o.whatIf.on {
		if whole.whatIf, err = o.simulate(ctx, made, live, &under); err != nil {
			return nil, err
		}
	}
	return whole, nil
}

// userDataOf returns a function that finds the user data of an EC2NodeClass in a Set.
func userDataOf(set *render.Set) func(class string) string {
	return func(class string) string {
		for i := range set.Objects {
			if ref := set.Objects[i].Ref; ref.Kind == render.EC2NodeClass && ref.Name == class {
				data, _, _ := unstructured.NestedString(set.Objects[i].Desired.Object, "spec", "userData")
				return data
			}
		}
		return ""
	}
}

// maxPods is the maximum number of pods listed; -o json contains all.
const maxPods = 20

// print prints a what-if as text.
func (r *whatIfReport) print(out io.Writer) {
	if r == nil {
		return
	}
	fmt.Fprintln(out, "\nWhat if all affected nodes were terminated at once (Karpenter's own simulation):")
	for _, line := range r.lines(redact.Visible) {
		fmt.Fprintln(out, "  "+line)
	}
}

// printMarkdown prints a what-if as a comment on a pull request.
func (r *whatIfReport) printMarkdown(out io.Writer) {
	if r == nil {
		return
	}
	fmt.Fprint(out, "\n<details><summary>What if all affected nodes were terminated at once (Karpenter's own simulation)</summary>\n\n")
	for _, line := range r.lines(code) {
		fmt.Fprintln(out, strings.Replace("- "+line, "-   ", "  - ", 1))
	}
	fmt.Fprint(out, "\n</details>\n")
}

// lines returns the result as lines. quote is applied to names of the cluster; a line that starts with two blanks
// belongs to the one before.
func (r *whatIfReport) lines(quote func(string) string) []string {
	if r.Unavailable != "" {
		return []string{"unavailable: " + quote(r.Unavailable)}
	}
	lines := []string{fmt.Sprintf("%s terminated, %s rescheduled", english.Plural(r.Ending, "node", ""), isOrAre(r.Leaving))}
	for _, pool := range r.Unlaunchable {
		lines = append(lines, simulate.NoInstanceType(quote(r.Region), quote("NodePool/"+pool)))
	}
	lines = append(lines, bulleted("pods that move:", r.Moves, func(m simulate.Move) string { return moved(quote, m) })...)
	lines = append(lines, bulleted(english.Plural(len(r.Nowhere), "pod", "")+" unschedulable afterwards:", r.Nowhere, func(s simulate.Stranded) string {
		return fmt.Sprintf("%s (%s): %s", quote(s.Pod), place(quote, s), quote(s.Reason))
	})...)
	lines = append(lines, bulleted("pods that cannot be evicted and keep their nodes:", r.Staying, func(b simulate.Blocked) string {
		return fmt.Sprintf("%s on %s: %s", quote(b.Pod), quote(b.Node), quote(b.Why))
	})...)
	lines = append(lines, bulleted("pending pods that can be scheduled after this change:", r.Placed, quote)...)
	lines = append(lines,
		bulleted("new nodes (EC2 Fleet chooses the type):", r.New, func(n simulate.NewNodes) string { return launched(quote, n) })...)
	lines = append(lines,
		bulleted("capacity for CapacityBuffers:", r.Buffers, func(b simulate.Buffer) string { return buffered(quote, b) })...)
	lines = append(lines, costs(r.Cost)...)
	for _, note := range r.Notes {
		lines = append(lines, "note: "+quote(note))
	}
	return lines
}

// bulleted returns a heading and its items, truncated if there are many; nothing if there are none.
func bulleted[T any](heading string, of []T, say func(T) string) []string {
	if len(of) == 0 {
		return nil
	}
	lines := []string{heading}
	for _, one := range of[:min(len(of), maxPods)] {
		lines = append(lines, "  "+say(one))
	}
	if more := shortlist.More("  ", len(of)-maxPods); more != "" {
		lines = append(lines, more+" (-o json has all)")
	}
	return lines
}

func moved(quote func(string) string, m simulate.Move) string {
	where := "existing nodes"
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

func place(quote func(string) string, s simulate.Stranded) string {
	switch {
	case s.Already:
		return "pending now, and still unschedulable"
	case s.Node == "":
		return "pending now, and schedulable without this change"
	}
	return quote(s.Pool) + ", node " + quote(s.Node)
}

func launched(quote func(string) string, n simulate.NewNodes) string {
	last, types := len(n.Types)-1, "no instance type"
	switch {
	case last == 0:
		types = quote(n.Types[0])
	case last > 0:
		types = fmt.Sprintf("one of %d instance types from %s to %s", last+1, quote(n.Types[0]), quote(n.Types[last]))
	}
	pods := english.Plural(n.Pods, "pod", "")
	switch placeholders := english.Plural(n.Placeholders, "placeholder pod", ""); {
	case n.Placeholders > 0 && n.Pods > 0:
		pods += " and " + placeholders
	case n.Placeholders > 0:
		pods = placeholders
	}
	return fmt.Sprintf("%d in %s with %s: %s, %s, %s, %.3f to %.3f an hour each", n.Count, quote(n.Pool), pods, types,
		strings.Join(n.CapacityTypes, " or "), strings.Join(n.Zones, ", "), n.Lowest, n.Highest)
}

// buffered returns where a CapacityBuffer's placeholder pods have capacity.
func buffered(quote func(string) string, b simulate.Buffer) string {
	line := fmt.Sprintf("%s: %s", quote(b.Name), english.Plural(b.Pods, "placeholder pod", ""))
	if b.New > 0 {
		line += fmt.Sprintf(", %d on new nodes", b.New)
	}
	if b.Nowhere > 0 {
		line += fmt.Sprintf(", %d without capacity: %s", b.Nowhere, quote(b.Reason))
	}
	return line
}

// costs returns the list prices before and after.
func costs(c simulate.Cost) []string {
	lines := []string{fmt.Sprintf("hourly list prices (Karpenter %s): %.2f now, %.2f to %.2f afterwards",
		schema.EmbeddedVersion, c.Before, c.Lowest, c.Highest)}
	if c.PricesOf != "" {
		lines = append(lines,
			fmt.Sprintf("  these are prices of %s, because the list has none for this region: use them only to compare", c.PricesOf))
	}
	if c.Spot > 0 {
		lines = append(lines, fmt.Sprintf("  %s counted at the on-demand price, because the list has no spot prices",
			english.Plural(c.Spot, "spot node is", "spot nodes are")))
	}
	if c.Unpriced > 0 {
		lines = append(lines, fmt.Sprintf("  %s without a list price, not included in either sum", english.Plural(c.Unpriced, "node", "")))
	}
	return lines
}
