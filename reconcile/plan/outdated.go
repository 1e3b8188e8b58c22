package plan

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Outdated is a NodeClaim that does not match the live definitions.
type Outdated struct {
	Claim *NodeClaim
	// Reason is Karpenter's drift reason.
	Reason string
}

// Match compares NodeClaims with the live definitions, as Karpenter does (sigs.k8s.io/karpenter
// pkg/controllers/nodeclaim/disruption/drift.go and karpenter-provider-aws pkg/cloudprovider/drift.go, 1.14.1).
type Match struct {
	Live Live
	// Exact computes the hashes of the definitions with Karpenter's libraries, because Karpenter annotates them only a
	// moment after a change, and compares requirements. Without it, Match uses Karpenter's annotations.
	Exact bool
	// CABundle is that of a Policy.
	CABundle string
	// Since is when the change was made: an instance that was requested before may still match the previous definition.
	Since time.Time
	// Unhashed are the definitions, as Kind/name, whose hash the change modifies, while their NodeClaims may have none.
	Unhashed []string
	// Memory caches the hashes of unchanged definitions.
	Memory *MatchMemory
}

// Matched is the result of a Match.
type Matched struct {
	// Outdated is sorted by name.
	Outdated []Outdated
	// Unsure reports whether there may be more, because Karpenter hashes differently than the linked library, or has
	// not annotated its hash yet. Unresolved are the EC2NodeClasses, by name, that may have more once Karpenter has
	// queried AWS for their AMIs, or has launched its pending NodeClaims.
	Unsure     bool
	Unresolved []string
	// Resolving are those of Unresolved for which Karpenter queries AWS: any of their NodeClaims may be outdated.
	Resolving []string
	// Unknown are the NodeClaims of Unhashed, by name, that existed before the change and have no comparable hash:
	// Karpenter marks none of them as drifted by it (areStaticFieldsDrifted in its drift.go).
	Unknown []string
}

// MatchMemory is what one Match passes to the next.
type MatchMemory struct {
	templates map[render.Ref]*template
	// proven reports whether Karpenter has annotated a class with the hash that was computed with the CA bundle:
	// Karpenter uses the same bundle.
	proven bool
}

// template is a definition that NodeClaims are compared with.
type template struct {
	comparison
	// noted is Karpenter's annotated hash; empty if there is none. counted are those that plumbline computes, one for each
	// hash version.
	noted   Hash
	counted []Hash
	// requirements are those of a NodePool.
	requirements scheduling.Requirements
	// fits caches whether labels match the requirements.
	fits map[Labels]bool
	// images are those of an EC2NodeClass; nil if they were not read. resolved reports whether they are for its current
	// spec.
	images   *images
	resolved bool
}

// Outdated returns the NodeClaims that do not match these NodePools and EC2NodeClasses. NodeClaims of other pools are
// compared only with the class.
func (m Match) Outdated(definitions []*Object) (found Matched) {
	ours := map[render.Ref]*Object{}
	for _, object := range definitions {
		ours[render.RefTo(object.GetKind(), object)] = object
	}
	// Only definitions that have NodeClaims are read, each once, and looked up once for all NodeClaims of a pool and
	// its class.
	templates, known := map[render.Ref]*template{}, map[definers]defined{}
	read := func(ref render.Ref, object *Object) *template {
		t, known := templates[ref]
		if !known && object != nil {
			t = m.template(ref, object)
		}
		templates[ref] = t
		return t
	}
	for i := range m.Live.NodeClaims {
		c := &m.Live.NodeClaims[i]
		by := definers{c.Pool, c.Class}
		d, looked := known[by]
		if !looked {
			ofPool, ofClass := render.Ref{Kind: render.NodePool, Name: c.Pool}, render.Ref{Kind: render.EC2NodeClass, Name: c.Class}
			if d.ours = ours[ofPool] != nil || ours[ofClass] != nil; d.ours {
				d.class, d.pool = read(ofClass, m.Live.object(ofClass)), read(ofPool, ours[ofPool])
			}
			known[by] = d
		}
		if !d.ours {
			continue
		}
		reason, sure := m.reason(c, d.pool, d.class)
		switch {
		case reason != "":
			found.Outdated = append(found.Outdated, Outdated{Claim: c, Reason: reason})
		case m.unresolved(c, d.class):
			found.Unresolved = append(found.Unresolved, c.Class)
			if !d.class.resolved {
				found.Resolving = append(found.Resolving, c.Class)
			}
		case m.unknown(c, d.pool, d.class):
			found.Unknown = append(found.Unknown, c.Name)
		}
		// A NodeClaim gets the hash of its class at launch, before its provider ID (sigs.k8s.io/karpenter
		// pkg/controllers/nodeclaim/lifecycle/controller.go): without a provider ID, nothing is known about it.
		found.Unsure = found.Unsure || !sure && c.ProviderID != ""
	}
	slices.SortFunc(found.Outdated, func(a, b Outdated) int { return cmp.Compare(a.Claim.Name, b.Claim.Name) })
	slices.Sort(found.Unknown)
	found.Unresolved, found.Resolving = distinct(found.Unresolved), distinct(found.Resolving)
	return found
}

// distinct sorts names, in place, and returns each once.
func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// definers are the names of the NodePool and the EC2NodeClass that a NodeClaim was created from.
type definers struct{ pool, class string }

// defined is what NodeClaims of these are compared with; ours reports whether one of the two was requested.
type defined struct {
	pool, class *template
	ours        bool
}

// counts reports whether the hashes of the library are those of the controller: a fork may compute others.
func (m Match) counts() bool { return m.Exact && m.Live.Fork == "" }

// unresolved reports whether a NodeClaim may run another AMI than its class requires, which is still unknown.
func (m Match) unresolved(c *NodeClaim, class *template) bool {
	if !m.Exact || class == nil || c.Deleting {
		return false
	}
	return !class.resolved || c.Image == "" && c.Created.Before(m.Since)
}

// unknown reports whether nothing shows if a NodeClaim was created from its definitions.
func (m Match) unknown(c *NodeClaim, pool, class *template) bool {
	if !m.Exact || len(m.Unhashed) == 0 || c.ProviderID == "" || c.Deleting || !c.Created.Before(m.Since) {
		return false
	}
	changed := func(kind, name string) bool { return slices.Contains(m.Unhashed, kind+"/"+name) }
	return pool.uncomparable(c.Hashes.Pool()) && changed(render.NodePool, c.Pool) ||
		class.uncomparable(c.Hashes.Class()) && changed(render.EC2NodeClass, c.Class)
}

// uncomparable reports whether a hash can be compared neither with the annotated nor with the computed hash.
func (t *template) uncomparable(hash Hash) bool {
	return t != nil && !t.noted.comparable(hash) && t.countedAs(hash) == ""
}

// reason returns why a NodeClaim drifted; empty if it did not. sure reports whether that is certain.
func (m Match) reason(c *NodeClaim, pool, class *template) (reason string, sure bool) {
	if pool == nil {
		return m.reasonOfClass(c, class)
	}
	outdated, counted := pool.outdates(c.Hashes.Pool(), m.counts())
	switch {
	case outdated:
		return DriftOfPool, true
	case m.Exact && c.ProviderID != "" && !pool.fit(c.Labels): // it has no labels before launch
		return driftOfRequirements, true
	}
	reason, sure = m.reasonOfClass(c, class)
	if reason == "" && c.Drifted && (!counted || !m.stale(c, pool)) {
		return c.DriftReason, true
	}
	return reason, sure && (reason != "" || counted || !m.Exact)
}

// stale reports whether the Drifted condition of a NodeClaim that matches its pool is based on a previous definition:
// Karpenter has not checked the NodeClaim since.
func (m Match) stale(c *NodeClaim, pool *template) bool {
	switch c.DriftReason {
	case DriftOfPool:
		return true
	case driftOfRequirements:
		return m.Exact && c.ProviderID != "" && c.Labels != "" && pool.requirements != nil
	}
	return false
}

// reasonOfClass is like reason, but only for the EC2NodeClass; nil means that it does not exist.
func (m Match) reasonOfClass(c *NodeClaim, class *template) (reason string, sure bool) {
	if class == nil {
		return "", true
	}
	outdated, counted := class.outdates(c.Hashes.Class(), m.counts() && m.Memory.proven)
	switch {
	case outdated:
		return driftOfClass, true
	case class.resolved && class.images.outdate(c):
		return driftOfAMI, true
	case c.Drifted && c.DriftReason != DriftOfPool && c.DriftReason != driftOfRequirements:
		return c.DriftReason, true
	}
	return "", counted || !m.Exact
}

// outdates reports whether a NodeClaim with this hash drifted, and whether a computed hash was used.
func (t *template) outdates(hash Hash, count bool) (outdated, counted bool) {
	if is := t.countedAs(hash); count && is != "" {
		return hash != is, true
	}
	return t.noted.comparable(hash) && hash != t.noted, false
}

// countedAs returns the computed hash that can be compared with another one; empty if there is none. Karpenter compares
// no hash of another version than it annotates on the definition.
func (t *template) countedAs(hash Hash) Hash {
	for _, is := range t.counted {
		if is.comparable(hash) && (t.noted == "" || is.comparable(t.noted)) {
			return is
		}
	}
	return ""
}

// fit reports whether labels match the requirements of a NodePool.
func (t *template) fit(labels Labels) bool {
	if labels == "" || t.requirements == nil {
		return true
	}
	fit, asked := t.fits[labels]
	if !asked {
		fit = scheduling.NewLabelRequirements(labels.Map()).Compatible(t.requirements) == nil
		t.fits[labels] = fit
	}
	return fit
}

// template reads a definition, once until it changes.
func (m Match) template(ref render.Ref, object *Object) *template {
	now := comparison{uid: object.GetUID(), resourceVersion: object.GetResourceVersion()}
	if known := m.Memory.templates[ref]; known != nil && known.comparison == now && (!m.Exact || known.fits != nil) {
		return known
	}
	t := &template{comparison: now}
	noted := notedOfClass
	if ref.Kind == render.NodePool {
		noted = notedOfPool
	}
	t.noted = noted(object.GetAnnotations())
	if m.Exact {
		t.count(object, m.CABundle)
		m.Memory.proven = m.Memory.proven || ref.Kind == render.EC2NodeClass && t.noted != "" && t.countedAs(t.noted) == t.noted
	}
	if m.Memory.templates == nil {
		m.Memory.templates = map[render.Ref]*template{}
	}
	m.Memory.templates[ref] = t
	return t
}

// count reads the definition with Karpenter's libraries; if they fail, the annotated hash is used.
func (t *template) count(object *Object, bundle string) {
	t.fits = map[Labels]bool{}
	if object.GetKind() == render.NodePool {
		if pool, err := typed[karpv1.NodePool](object.Unstructured); err == nil {
			t.counted = []Hash{poolHash(pool)}
			t.requirements = scheduling.NewNodeSelectorRequirementsWithMinValues(pool.Spec.Template.Spec.Requirements...)
		}
		return
	}
	for _, version := range classHashes() {
		t.counted = append(t.counted, classHash(object.Unstructured, version, bundle))
	}
	var amis []awsv1.AMI
	amis, t.resolved = ResolvedAMIs(object.Unstructured)
	t.images = imagesOf(amis)
}

// comparable reports whether two hashes have the same version.
func (h Hash) comparable(other Hash) bool {
	return h != "" && other != "" && h.version() == other.version()
}

// ReasonSettling is the reason of a NodePool that is in Git again, and that matches Git except for its disruption
// budgets.
const ReasonSettling = "Settling"

// settle keeps Karpenter from replacing nodes of a pool that is in Git again until it finds that they match: nodes that
// it has not started to replace stay. If nothing else needs a write, the Change waits for that.
func (m *maker) settle(change *Change) {
	if change.Action != TakeBack || change.Reason != ReasonReturned || change.Braked || !m.staleDrift(change) {
		return
	}
	budgets, err := Braked(change.Object)
	if err != nil {
		return // there is no room for another budget
	}
	change.Settles = budgets
	if change.onlyBudgets() && !Replaced(change.Live) && reflect.DeepEqual(BudgetsOf(change.Live), budgets) {
		change.Action, change.Reason, change.Force, change.WaitsFor = Wait, ReasonSettling, false, "NodeClaims of "+change.Ref.String()
		change.Message = fmt.Sprintf("%s is in Git again; plumbline restores its disruption budgets once Karpenter finds that its nodes match",
			change.Ref)
	}
}

// staleDrift reports whether Karpenter treats, or will treat, nodes that match Git as drifted: a removal made them
// drift.
func (m *maker) staleDrift(change *Change) bool {
	if change.Ref.Kind != render.NodePool || !BudgetsAppliedBy(change.Live, v1alpha1.RemovalFieldManager) {
		return false
	}
	if Replaced(change.Live) {
		return true
	}
	pool, err := typed[karpv1.NodePool](written(change.Object.Defaulted, change.Live))
	if err != nil {
		return false
	}
	hash := poolHash(pool)
	return slices.ContainsFunc(m.claims()[change.Ref], func(c *NodeClaim) bool {
		return c.DriftReason == DriftOfPool && !c.Deleting && !c.Disrupted && c.Hashes.Pool() == hash
	})
}

// Replaced reports whether the template of a pool has the label with which a removal makes its nodes drift.
func Replaced(live *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedFieldNoCopy(live.Object, "spec", "template", "metadata", "labels")
	labels, _ := value.(map[string]any)
	_, bears := labels[v1alpha1.LeavingLabel]
	return bears
}

// Input is what makes a NodeClaim drift: what it has, and what its definitions require now. From is empty if that is
// unknown, and To is the reason.
type Input struct{ From, To string }

// OfInstance reports whether a NodeClaim drifted for a reason whose inputs only EC2 knows: no object shows in which
// subnet, groups or reservation an instance runs.
func (o Outdated) OfInstance() bool {
	return slices.Contains([]string{driftOfGroup, driftOfSubnet, driftOfReservation}, o.Reason)
}

// ByAWS reports whether a NodeClaim drifted by data from AWS, which changes without a change of its definitions.
func (o Outdated) ByAWS() bool {
	return o.Reason != DriftOfPool && o.Reason != driftOfRequirements && o.Reason != driftOfClass
}

// InstanceReasons returns a function that returns Karpenter's reasons for which the instance of a NodeClaim does not
// match an EC2NodeClass, of those whose inputs only EC2 knows. running are the instances by provider ID. It returns nil
// while the status of the class is not for its current spec, because Karpenter has not queried AWS since.
// Source: karpenter-provider-aws pkg/cloudprovider/drift.go.
func InstanceReasons(class *Object, running map[string]Running) func(*NodeClaim) []string {
	if class == nil || UnresolvedNetwork(class) != "" {
		return nil
	}
	status, a := statusOf(class.Unstructured), &Answer{Running: running}
	for _, s := range status.Subnets {
		a.Subnets.Found = append(a.Subnets.Found, s.ID)
	}
	for _, g := range status.SecurityGroups {
		a.SecurityGroups.Found = append(a.SecurityGroups.Found, g.ID)
	}
	for _, r := range status.CapacityReservations {
		a.Reservations.Found = append(a.Reservations.Found, r.ID)
	}
	reasons := []string{driftOfGroup, driftOfSubnet, driftOfReservation}
	checks := make([]func(*NodeClaim) verdict, len(reasons))
	for i, reason := range reasons {
		checks[i] = a.driftCheck(reason)
	}
	return func(c *NodeClaim) []string {
		var found []string
		for i, reason := range reasons {
			if checks[i](c).drifts {
				found = append(found, reason)
			}
		}
		return found
	}
}

// UnresolvedNetwork returns why Karpenter has no subnets or security groups for the current spec of an EC2NodeClass; empty if it has both.
// Until then it finds no node outdated by them (isNodeClassDrifted in karpenter-provider-aws pkg/cloudprovider/drift.go, 1.14.1).
func UnresolvedNetwork(class *Object) string {
	words := ""
	for _, kind := range []string{awsv1.ConditionTypeSubnetsReady, awsv1.ConditionTypeSecurityGroupsReady} {
		var is metav1.Condition
		for _, c := range class.Conditions() {
			if c.Type == kind && c.ObservedGeneration == class.GetGeneration() {
				is = c
			}
		}
		switch is.Status {
		case metav1.ConditionTrue:
		case metav1.ConditionFalse:
			return fmt.Sprintf("EC2NodeClass/%s: %s: %s: %s", class.GetName(), kind, is.Reason, is.Message)
		default:
			words = fmt.Sprintf("Karpenter has not resolved the subnets and security groups of EC2NodeClass/%s", class.GetName())
		}
	}
	return words
}

// maxInputs limits how many IDs an Input lists on each side.
const maxInputs = 5

// Input returns what makes a NodeClaim of a Match drift, by Karpenter's reason. running is the data of its instance
// from EC2; if that is unknown, it is empty and unknown is the reason. If Karpenter's finding is out of date, both
// sides are the same.
func (m Match) Input(o Outdated, running Running, unknown string) Input {
	c := o.Claim
	class, pool := render.Ref{Kind: render.EC2NodeClass, Name: c.Class}, render.Ref{Kind: render.NodePool, Name: c.Pool}
	if o.OfInstance() && unknown != "" {
		return Input{To: unknown}
	}
	switch o.Reason {
	case DriftOfPool:
		return m.inputOfHash(pool, c.Hashes.Pool(), m.counts(), "spec.template")
	case driftOfClass:
		return m.inputOfHash(class, c.Hashes.Class(), m.counts() && m.Memory.proven, "the spec and the cluster's CA bundle")
	case driftOfRequirements:
		return m.inputOfRequirements(c, pool)
	case driftOfAMI:
		return m.inputOfAMI(c, class)
	case driftOfGroup:
		return Input{From: idList(running.SecurityGroups), To: m.resolved(class, "securityGroups")}
	case driftOfSubnet:
		return Input{From: cmp.Or(running.Subnet, "none"), To: m.resolved(class, "subnets")}
	case driftOfReservation:
		return Input{From: cmp.Or(running.Reservation, "none"), To: m.resolved(class, "capacityReservations")}
	case driftOfPlacement:
		return Input{From: cmp.Or(c.Labels.Map()[awsv1.LabelPlacementGroupID], "none"), To: "another placement group"}
	case typeNotFound:
		labels := c.Labels.Map()
		return Input{From: strings.Join([]string{
			labels[corev1.LabelInstanceTypeStable], labels[karpv1.CapacityTypeLabelKey], labels[corev1.LabelTopologyZone],
		}, " "), To: "not offered by AWS"}
	}
	return Input{To: "plumbline does not support this drift reason"}
}

// inputOfHash returns the Input of a hash, which does not show which field changed.
func (m Match) inputOfHash(ref render.Ref, made Hash, count bool, of string) Input {
	t := m.Memory.templates[ref]
	switch {
	case t == nil:
		return Input{To: ref.String() + " does not exist"}
	case made == "":
		return Input{To: "the NodeClaim has no hash"}
	}
	now := t.noted
	if is := t.countedAs(made); count && is != "" {
		now = is
	}
	if !now.comparable(made) {
		return Input{To: "the hash of " + ref.String() + " is missing or has another version"}
	}
	return from("hash "+made.sum(), "hash "+now.sum(),
		fmt.Sprintf("%s, hash of %s; the hash does not show which field changed", now.version(), of))
}

// inputOfRequirements returns the requirements that labels do not match.
func (m Match) inputOfRequirements(c *NodeClaim, pool render.Ref) Input {
	t := m.Memory.templates[pool]
	if t == nil || c.Labels == "" {
		return Input{To: "the NodeClaim has no labels, or its NodePool does not exist"}
	}
	labels := c.Labels.Map()
	has := scheduling.NewLabelRequirements(labels)
	var from, to []string
	for _, key := range slices.Sorted(maps.Keys(t.requirements)) {
		wanted := t.requirements.Get(key)
		if has.Compatible(scheduling.NewRequirements(wanted)) != nil {
			from, to = append(from, key+"="+labels[key]), append(to, wanted.String())
		}
	}
	if len(from) == 0 {
		return Input{To: "its labels match now"}
	}
	return Input{From: strings.Join(from, ", "), To: strings.Join(to, ", ")}
}

// inputOfAMI returns the AMI of a NodeClaim and the one that its class resolves to for it, with the terms whose AMI
// changes over time.
func (m Match) inputOfAMI(c *NodeClaim, class render.Ref) Input {
	t := m.Memory.templates[class]
	switch {
	case t == nil || t.images == nil || len(t.images.amis) == 0:
		return Input{To: class.String() + " lists no AMI in its status"}
	case c.Image == "" || c.Labels == "":
		return Input{To: "the NodeClaim has no AMI in its status"}
	}
	return from(c.Image, cmp.Or(t.images.choose(c.Labels), "no AMI of its class"), movingTerms(m.Live.object(class)))
}

// from returns an Input with a remark on what is required.
func from(has, wanted, remark string) Input {
	if has == wanted || remark == "" {
		return Input{From: has, To: wanted}
	}
	return Input{From: has, To: wanted + " (" + remark + ")"}
}

// movingTerms returns the aliases and SSM parameters in the spec of an EC2NodeClass: they may resolve to another AMI
// tomorrow.
func movingTerms(class *Object) string {
	if class == nil {
		return ""
	}
	value, _, _ := unstructured.NestedFieldNoCopy(class.Object, "spec", "amiSelectorTerms")
	terms, _ := value.([]any)
	var moving []string
	for _, t := range terms {
		fields, _ := t.(map[string]any)
		for _, key := range []string{"alias", "ssmParameter"} {
			if name, _ := fields[key].(string); name != "" {
				moving = append(moving, name)
			}
		}
	}
	return strings.Join(moving, ", ")
}

// resolved returns the IDs in a list in the status of an EC2NodeClass.
func (m Match) resolved(ref render.Ref, list string) string {
	class := m.Live.object(ref)
	if class == nil {
		return ref.String() + " does not exist"
	}
	value, _, _ := unstructured.NestedFieldNoCopy(class.Object, "status", list)
	found, _ := value.([]any)
	var ids []string
	for _, one := range found {
		fields, _ := one.(map[string]any)
		if id, _ := fields["id"].(string); id != "" {
			ids = append(ids, id)
		}
	}
	return idList(ids)
}

// idList returns the first IDs, sorted.
func idList(ids []string) string {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	if len(ids) == 0 {
		return "none"
	}
	return shortlist.Join(ids, maxInputs, ", ")
}
