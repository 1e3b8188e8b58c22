package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// teardownShow prints how a teardown goes: bars on a terminal, lines in a pipe, events as JSON.
type teardownShow interface {
	// plan prints what is going to end.
	plan(l *teardownPlan) error
	// say prints a sentence.
	say(words string)
	// progress prints how far each definition is, and what is waited for.
	progress(all departures, message string)
	// report prints what AWS has left.
	report(report leftover.Report) error
	// end leaves the cursor at the beginning of a line.
	end()
}

func newShow(cmd *cobra.Command, output format, now func() time.Time) teardownShow {
	if output == formatJSON {
		return &eventShow{out: cmd.OutOrStdout(), now: now, said: map[string]departure{}}
	}
	people := peopleShow{out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
	if width := widthOf(people.err); width > 0 {
		return &barShow{peopleShow: people, width: width}
	}
	return &lineShow{peopleShow: people, said: map[string]departure{}}
}

// peopleShow is what bars and lines have in common.
type peopleShow struct{ out, err io.Writer }

func (s *peopleShow) plan(l *teardownPlan) error {
	l.print(&visibleWriter{s.out})
	return nil
}

func (s *peopleShow) report(report leftover.Report) error {
	return writeReport(s.out, formatText, report)
}

// lineShow prints a line for each change.
type lineShow struct {
	peopleShow

	said map[string]departure
	last string
}

func (s *lineShow) say(words string) { fmt.Fprintln(s.err, redact.Visible(words)) }

func (s *lineShow) end() {}

func (s *lineShow) progress(all departures, message string) {
	for _, d := range news(s.said, all) {
		s.say(d.words())
	}
	if message = oneLine(message); message != "" && message != s.last && !all.describedBy(message) {
		s.last = message
		s.say(message)
	}
}

// news are the departures that have changed, which it notes.
func news(said map[string]departure, all departures) (changed departures) {
	for _, d := range all {
		if d.Phase != "" && said[d.ref()] != d {
			said[d.ref()] = d
			changed = append(changed, d)
		}
	}
	return changed
}

// describedBy reports whether a message is about the removal of one of the definitions: its line says the same.
func (all departures) describedBy(message string) bool {
	return slices.ContainsFunc(all, func(d departure) bool { return d.Phase != "" && strings.Contains(message, d.ref()+": ") })
}

// words are a departure in a line.
func (d departure) words() string {
	if d.Phase == phaseGone {
		return d.ref() + " is gone"
	}
	words := d.ref() + ": " + d.Phase
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

// barShow moves a bar for each NodePool.
type barShow struct {
	peopleShow

	width int
	// lines are how many the bars take above the cursor.
	lines int
}

func (s *barShow) say(words string) {
	s.end()
	fmt.Fprintln(s.err, redact.Visible(words))
}

// end leaves the bars where they stand.
func (s *barShow) end() { s.lines = 0 }

// barWidth is how many characters a bar has.
const barWidth = 20

// progress draws the bars again (ECMA-48: CPL, ED).
func (s *barShow) progress(all departures, message string) {
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

// bars are a row for each definition that is not gone, and for each pool, as far as a screen has room.
func bars(all departures) (rows []string) {
	longest, hidden := 0, 0
	for _, d := range all {
		longest = max(longest, len([]rune(d.ref())))
	}
	for _, d := range all {
		if d.Phase == phaseGone && (d.Kind != render.NodePool || len(all) > screenful) {
			continue
		}
		if len(rows) == screenful {
			hidden++
			continue
		}
		row := d.ref() + strings.Repeat(" ", longest-len([]rune(d.ref()))+between)
		if d.Kind == render.NodePool {
			row += d.bar() + "  "
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
	if hidden > 0 {
		rows = append(rows, fmt.Sprintf("and %d more", hidden))
	}
	return rows
}

// bar is how much of a pool has ended.
func (d departure) bar() string {
	ended, full := d.Of-d.Left, barWidth
	if d.Of > 0 {
		full = barWidth * ended / d.Of
	}
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full) + fmt.Sprintf("  %d of %d ended", ended, d.Of)
}

// teardownEvent is a line of JSON; what Event is says which of the others it has.
type teardownEvent struct {
	Time string `json:"time"`
	// Event is plan, message, departure or report.
	Event     string           `json:"event"`
	Message   string           `json:"message,omitempty"`
	Plan      *teardownPlan    `json:"plan,omitempty"`
	Departure *departure       `json:"departure,omitempty"`
	Report    *leftover.Report `json:"report,omitempty"`
}

// eventShow prints one event a line.
type eventShow struct {
	out  io.Writer
	now  func() time.Time
	said map[string]departure
	last string
	// failed is why a line could not be written.
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

func (s *eventShow) plan(l *teardownPlan) error {
	s.print(teardownEvent{Event: "plan", Plan: l})
	return s.failed
}

func (s *eventShow) say(words string) {
	if words != "" && words != s.last {
		s.last = words
		s.print(teardownEvent{Event: "message", Message: words})
	}
}

func (s *eventShow) progress(all departures, message string) {
	for _, d := range news(s.said, all) {
		s.print(teardownEvent{Event: "departure", Departure: &d})
	}
	s.say(message)
}

func (s *eventShow) report(report leftover.Report) error {
	s.print(teardownEvent{Event: "report", Report: &report})
	return s.failed
}

func (s *eventShow) end() {}

// teardownPlan is what a teardown takes away, and what of the cluster stays.
type teardownPlan struct {
	NodeSync  string `json:"nodeSync"`
	DownTo    level  `json:"downTo"`
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Region    string `json:"region"`
	Account   string `json:"account"`
	// Objects are the definitions of the NodeSync.
	Objects []leavingObject `json:"objects"`
	// NodeClaims and Nodes of its NodePools, and Instances that EC2 has and no NodePool that stays.
	NodeClaims int `json:"nodeClaims"`
	Nodes      int `json:"nodes"`
	Instances  int `json:"instances"`
	// Controller reports that Karpenter's controller does not run, and what is done about it.
	Controller string `json:"controller,omitempty"`
	// Karpenter says what of it goes afterwards; empty if it stays.
	Karpenter string `json:"karpenter,omitempty"`
	// Stays are the cluster's other NodePools and EC2NodeClasses, and Karpenter's charts.
	Stays []string `json:"stays,omitempty"`
	// WithoutDaemon says why no daemon leads: this command ends the nodes then, As another user
	// where the deletion guard wants that.
	WithoutDaemon string `json:"withoutDaemon,omitempty"`
	As            string `json:"as,omitempty"`
	// Appliers are other tools that apply something of this, and would create it again.
	Appliers []string `json:"appliers,omitempty"`
	// Suspends reports whether they are suspended first.
	Suspends bool `json:"suspends,omitempty"`

	// appliers are they, each once.
	appliers []owners.Owner
	stays    leftover.Known
	// claims are the NodeClaims of its NodePools that have a node.
	claims []plan.NodeClaim
	// vanished are the NodePools of Objects that are gone, each with its UID.
	vanished map[string]types.UID
}

// leavingObject is a definition, with its number of NodeClaims.
type leavingObject struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	NodeClaims int    `json:"nodeClaims"`
	// Gone reports whether the cluster has it no more: its NodeClaims are left.
	Gone bool `json:"gone,omitempty"`
}

// profileAnnotation has the instance profile of a NodeClaim's instance (karpenter-provider-aws pkg/apis/v1/labels.go,
// AnnotationInstanceProfile).
const profileAnnotation = "karpenter.k8s.aws/instance-profile-name"

// leaving reads what a NodeSync has, and what stays.
func (c *clusterAccess) leaving(ctx context.Context, sync *v1alpha1.NodeSync, downTo level) (*teardownPlan, error) {
	l := &teardownPlan{
		DownTo: downTo, NodeSync: sync.Name, Namespace: sync.Namespace, Objects: []leavingObject{},
		vanished: map[string]types.UID{},
		stays:    leftover.Known{Pools: map[string]bool{}, Classes: map[string]bool{}, Profiles: map[string]bool{}},
	}
	l.noteAppliers("NodeSync/"+sync.Name, sync)
	claims := &karpv1.NodeClaimList{}
	if err := c.List(ctx, claims); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, explain(err, "list NodeClaims")
	}
	owner := plan.OwnerOf(sync.Namespace, sync.Name)
	for _, kind := range render.Kinds() {
		objects, err := definitionsOf(ctx, c, kind)
		if err != nil {
			return nil, err
		}
		for i := range objects {
			goes := kind.GVK.Kind == render.NodePool || !downTo.keeps()
			if object := &objects[i]; goes && owner.Owns(object) {
				l.add(kind.GVK.Kind, object, claims.Items)
			} else {
				l.keep(kind.GVK.Kind, object)
			}
		}
	}
	if err := c.addVanished(ctx, l, sync, claims.Items); err != nil {
		return nil, err
	}
	l.keepProfiles(claims.Items)
	return l, nil
}

// keepProfiles notes the instance profiles of NodeClaims that stay, as Karpenter does before it deletes one
// (karpenter-provider-aws pkg/controllers/nodeclass/garbagecollection): an EC2NodeClass has only its newest. Releases
// before 1.8 do not annotate them, and those that run since then may have a profile that is in no status any more.
func (l *teardownPlan) keepProfiles(claims []karpv1.NodeClaim) {
	for i := range claims {
		profile := claims[i].Annotations[profileAnnotation]
		switch {
		case l.ends(render.NodePool, poolOf(&claims[i])):
		case profile == "":
			l.stays.Unprofiled = claims[i].Name
		default:
			l.stays.Profiles[profile] = true
		}
	}
}

func (l *teardownPlan) add(kind string, object *unstructured.Unstructured, claims []karpv1.NodeClaim) {
	leaves := leavingObject{Kind: kind, Name: object.GetName()}
	for i := range claims {
		if kind == render.NodePool && poolOf(&claims[i]) == object.GetName() {
			l.count(&leaves, &claims[i])
		}
	}
	l.Objects = append(l.Objects, leaves)
	l.noteAppliers(kind+"/"+object.GetName(), object)
}

// keep notes an object that is not the NodeSync's.
func (l *teardownPlan) keep(kind string, object *unstructured.Unstructured) {
	switch kind {
	case render.NodePool:
		l.stays.Pools[object.GetName()] = true
	case render.EC2NodeClass:
		l.stays.Classes[object.GetName()] = true
		if profile, _, err := unstructured.NestedString(object.Object, "status", "instanceProfile"); err == nil && profile != "" {
			l.stays.Profiles[profile] = true
		}
	}
	l.Stays = append(l.Stays, stayingWords(kind, object))
}

// stayingWords names an object with the NodeSync that has it.
func stayingWords(kind string, object *unstructured.Unstructured) string {
	words := kind + "/" + object.GetName()
	if of := object.GetLabels()[v1alpha1.OwnerLabel]; of != "" {
		words += " of NodeSync " + cmp.Or(object.GetAnnotations()[v1alpha1.OwnerLabel], of)
	}
	return words
}

// noteCharts notes what becomes of Karpenter.
func (l *teardownPlan) noteCharts(k *v1alpha1.KarpenterStatus, downTo level) {
	if k == nil {
		return
	}
	words := "Karpenter"
	if k.Version != "" {
		words += " " + k.Version
	}
	words += " in namespace " + k.Namespace
	switch downTo {
	case toCRDs:
		l.Karpenter = words + ", its charts and CRDs"
	case toController:
		l.Karpenter = words + ", its main chart"
		l.Stays = append(l.Stays, "the CRDs of "+words)
	case toDefinitions, toNodes:
		l.Stays = append(l.Stays, words+", its charts and CRDs")
	}
}

// noteAppliers notes the tools that apply an object beside plumbline.
func (l *teardownPlan) noteAppliers(name string, object client.Object) {
	for _, owner := range owners.All(object) {
		l.Appliers = append(l.Appliers, fmt.Sprintf("%s is applied by %s", name, owner))
		if !slices.Contains(l.appliers, owner) {
			l.appliers = append(l.appliers, owner)
		}
	}
}

// print shows it to people.
func (l *teardownPlan) print(out io.Writer) {
	fmt.Fprintf(out, "nodesync/%s of cluster %s in %s, account %s\n\n", l.NodeSync, l.Cluster, l.Region, l.Account)
	ends := "ENDS"
	if l.DownTo.keeps() {
		ends = "LOSES ITS NODES"
	}
	t := newTable(out, ends, "NODECLAIMS")
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
	if !l.DownTo.keeps() {
		t.AppendRow([]any{"NodeSync/" + l.NodeSync, ""})
	}
	t.Render()
	fmt.Fprintf(out, "\n%s, %s, %s in EC2\n", english.Plural(l.NodeClaims, "NodeClaim", ""), english.Plural(l.Nodes, "Node", ""), english.Plural(l.Instances, "instance", ""))
	if l.Karpenter != "" {
		fmt.Fprintf(out, "goes afterwards, once AWS has nothing left: %s\n", l.Karpenter)
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
		fmt.Fprintf(out, "%s: this command takes the lease and ends the nodes itself%s\n", l.WithoutDaemon, as)
	}
	if l.DownTo.keeps() {
		fmt.Fprintf(out, "the NodePools stay and make no node, until `plumbline resume %s -n %s`\n", l.NodeSync, l.Namespace)
		return
	}
	for _, applier := range l.Appliers {
		if l.Suspends {
			fmt.Fprintf(out, "%s, which is suspended first\n", applier)
			continue
		}
		fmt.Fprintf(out, "%s, which may create it again: take it out there first, or suspend that, by --suspend-appliers\n", applier)
	}
}
