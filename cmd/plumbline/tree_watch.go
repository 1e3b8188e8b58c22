package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/redact"
)

// podsEvery is how often `plumbline tree --watch` reads Nodes and pods, which it does not watch.
const podsEvery = 5 * time.Second

// nodeRow is a node of a NodeSync, or a NodeClaim that has none yet.
type nodeRow struct {
	pool, claim, node string
	// kind is the instance type, and price its on-demand list price in US dollars an hour; 0 if unknown.
	kind, zone, capacity string
	price                float64
	created              metav1.Time
	pods                 int
	// state is its state, and what it waits for.
	state string
}

// nodesOfSync are the nodes of a NodeSync, whose cluster is in a region.
type nodesOfSync struct {
	sync, region string
	rows         []nodeRow
}

// nodeRows returns a row for each NodeClaim, sorted by pool and age, the oldest first.
func nodeRows(claims []*karpv1.NodeClaim, nodes []corev1.Node, pods []corev1.Pod, region string) (rows []nodeRow) {
	byID := map[string]*corev1.Node{}
	for i := range nodes {
		byID[nodes[i].Spec.ProviderID] = &nodes[i]
	}
	on := map[string][]*corev1.Pod{}
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			on[pod.Spec.NodeName] = append(on[pod.Spec.NodeName], pod)
		}
	}
	for _, claim := range claims {
		row := nodeRow{
			pool: poolOf(claim), claim: claim.Name, created: claim.CreationTimestamp,
			kind: claim.Labels[corev1.LabelInstanceTypeStable], zone: claim.Labels[corev1.LabelTopologyZone],
			capacity: claim.Labels[karpv1.CapacityTypeLabelKey],
		}
		row.price, _ = offers.ListPrice(region, row.kind)
		var evicted []*corev1.Pod
		node := byID[claim.Status.ProviderID]
		if claim.Status.ProviderID == "" {
			node = nil
		}
		if node != nil {
			row.node, row.pods = node.Name, len(on[node.Name])
			evicted = slices.DeleteFunc(slices.Clone(on[node.Name]), func(p *corev1.Pod) bool { return !blocker.Drains(p) })
		}
		row.state = waitsFor(claim, node, evicted)
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b nodeRow) int {
		return cmp.Or(cmp.Compare(a.pool, b.pool), a.created.Compare(b.created.Time), cmp.Compare(a.claim, b.claim))
	})
	return rows
}

// waitsFor returns the state of a NodeClaim, and what it waits for. evicted are the pods that Karpenter evicts when it drains
// the node.
func waitsFor(claim *karpv1.NodeClaim, node *corev1.Node, evicted []*corev1.Pod) string {
	conditions := claim.StatusConditions()
	if claim.DeletionTimestamp == nil {
		for _, kind := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
			if c := conditions.Get(kind); !c.IsTrue() {
				return withReason("waits for "+kind, c)
			}
		}
		switch {
		case node == nil:
			return "its Node is gone"
		case !cluster.NodeReady(node):
			return "NotReady"
		case conditions.Get(karpv1.ConditionTypeDrifted).IsTrue():
			return withReason("Drifted", conditions.Get(karpv1.ConditionTypeDrifted))
		case node.Spec.Unschedulable:
			return "Ready, cordoned"
		}
		return "Ready"
	}
	if conditions.Get(karpv1.ConditionTypeDrained).IsTrue() || len(evicted) == 0 {
		if c := conditions.Get(karpv1.ConditionTypeVolumesDetached); c != nil && !c.IsTrue() {
			return withReason("waits for volumes to detach", c)
		}
		return "terminating its instance"
	}
	first := slices.MinFunc(evicted, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	words := fmt.Sprintf("draining: waits for %s to leave: %s/%s", english.Plural(len(evicted), "pod", ""), first.Namespace, first.Name)
	if len(evicted) > 1 {
		words += ", …"
	}
	return words
}

// withReason appends the reason and the message of a condition, if it has them. AwaitingReconciliation says nothing.
func withReason(words string, c *status.Condition) string {
	if c == nil || c.Reason == "AwaitingReconciliation" {
		return words
	}
	if c.Reason != "" {
		words += ": " + c.Reason
	}
	if c.Message != "" && c.Message != c.Reason {
		words += ": " + c.Message
	}
	return words
}

// line returns a row in one line, for a pipe. It has no age, so that it changes only with the node.
func (r nodeRow) line() string {
	words := []string{"NodeClaim/" + r.claim}
	for _, word := range []string{r.node, r.kind, r.zone, r.capacity} {
		if word != "" {
			words = append(words, word)
		}
	}
	return fmt.Sprintf("%s (%s): %s, %s", r.pool, strings.Join(words, ", "), english.Plural(r.pods, "pod", ""), oneLine(r.state))
}

// printNodeRows prints rows as a table, and their sums.
func printNodeRows(out io.Writer, shown nodesOfSync) {
	rows := shown.rows
	total, unknown := 0.0, 0
	t := display.NewNarrowedTable(out, 9, []int{2, 5, 4}, "POOL", "NODECLAIM", "TYPE", "ZONE", "CAPACITY", "LIST $/H", "AGE", "PODS", "STATE")
	for _, r := range rows {
		price := fmt.Sprintf("%.4f", r.price)
		if total += r.price; r.price == 0 {
			price, unknown = "unknown", unknown+1
		}
		t.AppendRow([]any{r.pool, r.claim, r.kind, r.zone, r.capacity, price, age(r.created), r.pods, oneLine(r.state)})
	}
	sum := fmt.Sprintf("nodesync/%s: %s, %.2f $/h by on-demand list prices of %s",
		shown.sync, english.Plural(len(rows), "node", ""), total, offers.PriceRegion(shown.region))
	if unknown > 0 {
		sum += fmt.Sprintf(" (%d unknown)", unknown)
	}
	fmt.Fprintln(out, sum)
	if len(rows) > 0 {
		t.Render()
	}
}

// readNodeRows reads the nodes of a NodeSync.
func (c *clusterAccess) readNodeRows(ctx context.Context, name string) (shown nodesOfSync, err error) {
	sync, err := c.nodeSync(ctx, name)
	if err != nil {
		return shown, err
	}
	owned, byPool, err := poolsWithClaims(ctx, c, sync)
	if err != nil {
		return shown, err
	}
	var claims []*karpv1.NodeClaim
	for _, pool := range owned {
		claims = append(claims, byPool[pool.GetName()]...)
	}
	nodes, pods := &corev1.NodeList{}, &corev1.PodList{}
	if err := c.List(ctx, nodes); err != nil {
		return shown, explain(err, "list Nodes")
	}
	if err := c.List(ctx, pods); err != nil {
		return shown, explain(err, "list pods")
	}
	shown.sync = sync.Name
	if k := sync.Status.Karpenter; k != nil {
		shown.region = k.Region
	}
	shown.rows = nodeRows(claims, nodes.Items, pods.Items, shown.region)
	return shown, nil
}

// watchTree shows the nodes of a NodeSync until the user stops it: on a terminal it redraws them each second, in a pipe it
// prints each change as one line.
func (c *clusterAccess) watchTree(cmd *cobra.Command, output format, name string) error {
	if output != formatTable {
		return errors.New("--watch prints text: leave -o out")
	}
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	news := newChangeSignal()
	news.follow(ctx, c, c.namespaceOfNodeSyncs(ctx))
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	out := cmd.OutOrStdout()
	show := (&nodeLines{out: &display.Visible{Writer: out}}).show
	if screen, ok := out.(terminal); ok && display.Width(out) > 0 {
		if _, err := io.WriteString(screen, clearScreen); err != nil {
			return err
		}
		show = func(shown nodesOfSync, _ time.Time) error { return drawNodeRows(screen, shown, news.note()) }
	}
	read := func(ctx context.Context) (nodesOfSync, error) { return c.readNodeRows(ctx, name) }
	return followNodes(ctx, read, news.changedSinceLast, show, time.Now(), tick.C)
}

// followNodes shows the nodes immediately and with each tick, until the context is done. It reads them again when something has
// changed, and every podsEvery.
func followNodes(
	ctx context.Context, read func(context.Context) (nodesOfSync, error), changed func() bool,
	show func(shown nodesOfSync, now time.Time) error, now time.Time, ticks <-chan time.Time,
) error {
	var shown nodesOfSync
	var due time.Time
	for {
		if changed() || !now.Before(due) {
			var err error
			if shown, err = read(ctx); err != nil && ctx.Err() == nil {
				return err
			}
			due = now.Add(podsEvery)
		}
		if ctx.Err() == nil {
			if err := show(shown, now); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil // the user has stopped it
		case now = <-ticks:
		}
	}
}

// drawNodeRows overwrites what is on the screen.
func drawNodeRows(screen terminal, shown nodesOfSync, note string) error {
	next := &frame{terminal: screen}
	printNodeRows(&display.Visible{Writer: next}, shown)
	if note != "" {
		fmt.Fprintln(next, "\n"+note)
	}
	return next.overwrite()
}

// nodeLines prints a line for each change of a node.
type nodeLines struct {
	out  io.Writer
	said map[string]string
}

func (n *nodeLines) show(shown nodesOfSync, now time.Time) error {
	said := map[string]string{}
	at := now.UTC().Format(time.TimeOnly) + "Z "
	for _, row := range shown.rows {
		said[row.claim] = row.line()
		if n.said[row.claim] == said[row.claim] {
			continue
		}
		if _, err := fmt.Fprintln(n.out, at+redact.Visible(said[row.claim])); err != nil {
			return err
		}
	}
	var gone []string
	for claim := range n.said {
		if said[claim] == "" {
			gone = append(gone, claim)
		}
	}
	slices.Sort(gone)
	for _, claim := range gone {
		if _, err := fmt.Fprintln(n.out, at+redact.Visible("NodeClaim/"+claim+": gone")); err != nil {
			return err
		}
	}
	n.said = said
	return nil
}
