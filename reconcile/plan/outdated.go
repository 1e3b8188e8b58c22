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

// Outdated is a NodeClaim that does not match the definitions that live.
type Outdated struct {
	Claim *NodeClaim
	// Reason is Karpenter's.
	Reason string
}

// Match compares NodeClaims with the definitions that live, as Karpenter does
// (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/disruption/drift.go and
// karpenter-provider-aws pkg/cloudprovider/drift.go, 1.14.1).
type Match struct {
	Live Live
	// Exact has Karpenter's libraries count the hashes of the definitions, which it notes on them
	// a moment after a change only, and compares requirements. Without it Match goes by what
	// Karpenter has noted.
	Exact bool
	// CABundle is that of a Policy.
	CABundle string
	// Since is when the change was made: an instance that was asked for before it may come by what
	// was there before.
	Since time.Time
	// Unhashed are the definitions, as Kind/name, to which the change has given another hash, while
	// NodeClaims of them may have none.
	Unhashed []string
	// Memory keeps what was counted of definitions that have not changed since.
	Memory *MatchMemory
}

// Matched is what a Match has found.
type Matched struct {
	// Outdated are by name.
	Outdated []Outdated
	// Unsure reports whether there may be more, by what Karpenter counts otherwise than the linked
	// library, or has not noted yet. Unresolved are the EC2NodeClasses, by name, of which there may
	// be more as soon as Karpenter has asked AWS for their AMIs, or has launched what it launches.
	Unsure     bool
	Unresolved []string
	// Unknown are the NodeClaims of Unhashed, by name, that were there before the change and have no hash
	// that can be compared: Karpenter finds none of them outdated by it (areStaticFieldsDrifted in its drift.go).
	Unknown []string
}

// MatchMemory is what one Match leaves to the next.
type MatchMemory struct {
	templates map[render.Ref]*template
	// proven reports whether Karpenter has noted the very hash of a class that was counted with the
	// bundle: it is Karpenter's, too.
	proven bool
}

// template is what NodeClaims are compared with.
type template struct {
	comparison
	// noted is the hash that Karpenter has noted, and counted the one by its library; empty if
	// there is none.
	noted, counted Hash
	// requirements are a NodePool's.
	requirements scheduling.Requirements
	// fits is whether labels do.
	fits map[Labels]bool
	// images are an EC2NodeClass's; nil if they are not counted. resolved reports that they are
	// those of its spec.
	images   *images
	resolved bool
}

// Outdated finds the NodeClaims of some NodePools and EC2NodeClasses that do not match these: of a
// pool of another NodeSync what its class outdates.
func (m Match) Outdated(definitions []*Object) (found Matched) {
	ours := map[render.Ref]*Object{}
	for _, object := range definitions {
		ours[render.Ref{Kind: object.GetKind(), Name: object.GetName()}] = object
	}
	// Only definitions that have NodeClaims are read, each once, and looked for once for all
	// NodeClaims of a pool and its class.
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
		case m.unknown(c, d.pool, d.class):
			found.Unknown = append(found.Unknown, c.Name)
		}
		// The hash of its class is noted on a NodeClaim when it is launched, before its provider ID is
		// (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/lifecycle/controller.go): until then nothing
		// is to be known of it, and then all is.
		found.Unsure = found.Unsure || !sure && c.ProviderID != ""
	}
	slices.SortFunc(found.Outdated, func(a, b Outdated) int { return cmp.Compare(a.Claim.Name, b.Claim.Name) })
	slices.Sort(found.Unknown)
	slices.Sort(found.Unresolved)
	found.Unresolved = slices.Compact(found.Unresolved)
	return found
}

// definers are the names of the NodePool and of the EC2NodeClass that a NodeClaim was made by.
type definers struct{ pool, class string }

// defined is what NodeClaims of these are compared with; ours reports that one of the two is asked for.
type defined struct {
	pool, class *template
	ours        bool
}

// unresolved reports whether a NodeClaim may run another AMI than its class calls for, which will show.
func (m Match) unresolved(c *NodeClaim, class *template) bool {
	if !m.Exact || class == nil || c.Deleting {
		return false
	}
	return !class.resolved || c.Image == "" && c.Created.Before(m.Since)
}

// unknown reports whether nothing tells if a NodeClaim was made by its definitions.
func (m Match) unknown(c *NodeClaim, pool, class *template) bool {
	if !m.Exact || len(m.Unhashed) == 0 || c.ProviderID == "" || c.Deleting || !c.Created.Before(m.Since) {
		return false
	}
	changed := func(kind, name string) bool { return slices.Contains(m.Unhashed, kind+"/"+name) }
	return pool.blind(c.Hashes.Pool()) && changed(render.NodePool, c.Pool) ||
		class.blind(c.Hashes.Class()) && changed(render.EC2NodeClass, c.Class)
}

// blind reports whether a hash can be compared neither with what is noted nor with what was counted.
func (t *template) blind(hash Hash) bool {
	return t != nil && !t.noted.comparable(hash) && !t.counted.comparable(hash)
}

// reason is why a NodeClaim is outdated; empty if it is not, and sure reports that this is certain.
func (m Match) reason(c *NodeClaim, pool, class *template) (reason string, sure bool) {
	if pool == nil {
		return m.reasonOfClass(c, class)
	}
	outdated, counted := pool.outdates(c.Hashes.Pool(), m.Exact)
	switch {
	case outdated:
		return DriftOfPool, true
	case m.Exact && c.ProviderID != "" && !pool.fit(c.Labels): // before its launch it lacks labels
		return driftOfRequirements, true
	}
	reason, sure = m.reasonOfClass(c, class)
	if reason == "" && c.Drifted && (!counted || !m.stale(c, pool)) {
		return c.DriftReason, true
	}
	return reason, sure && (reason != "" || counted || !m.Exact)
}

// stale says of a NodeClaim that was compared with its pool and matches that Karpenter has not looked again since:
// its condition is by a former definition.
func (m Match) stale(c *NodeClaim, pool *template) bool {
	switch c.DriftReason {
	case DriftOfPool:
		return true
	case driftOfRequirements:
		return m.Exact && c.ProviderID != "" && c.Labels != "" && pool.requirements != nil
	}
	return false
}

// reasonOfClass is likewise by the EC2NodeClass only; nil is one that is not there.
func (m Match) reasonOfClass(c *NodeClaim, class *template) (reason string, sure bool) {
	if class == nil {
		return "", true
	}
	outdated, counted := class.outdates(c.Hashes.Class(), m.Exact && m.Memory.proven)
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

// outdates reports whether a NodeClaim with a hash is outdated, and whether that was counted.
func (t *template) outdates(hash Hash, count bool) (outdated, counted bool) {
	switch {
	case count && t.counted.comparable(hash):
		return hash != t.counted, true
	case t.noted.comparable(hash):
		return hash != t.noted, false
	}
	return false, false
}

// fit reports whether labels fit the requirements of a NodePool.
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

// template reads a definition, once while it does not change.
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
		m.Memory.proven = m.Memory.proven || ref.Kind == render.EC2NodeClass && t.counted != "" && t.counted == t.noted
	}
	if m.Memory.templates == nil {
		m.Memory.templates = map[render.Ref]*template{}
	}
	m.Memory.templates[ref] = t
	return t
}

// count has Karpenter's libraries read the definition; one that they cannot read goes by what is
// noted on it.
func (t *template) count(object *Object, bundle string) {
	t.fits = map[Labels]bool{}
	if object.GetKind() == render.NodePool {
		if pool, err := typed[karpv1.NodePool](object.Unstructured); err == nil {
			t.counted = poolHash(pool)
			t.requirements = scheduling.NewNodeSelectorRequirementsWithMinValues(pool.Spec.Template.Spec.Requirements...)
		}
		return
	}
	if class, err := typed[awsv1.EC2NodeClass](object.Unstructured); err == nil {
		t.counted = classHash(class, bundle)
	}
	var amis []awsv1.AMI
	amis, t.resolved = ResolvedAMIs(object.Unstructured)
	t.images = imagesOf(amis)
}

// comparable reports whether two hashes are of one version.
func (h Hash) comparable(other Hash) bool {
	return h != "" && other != "" && h.version() == other.version()
}

// ReasonSettling is the reason of a NodePool that Git has again, and that has all but its disruption budgets.
const ReasonSettling = "Settling"

// settle keeps Karpenter from replacing nodes of a pool that Git has again, until it finds that they match: what it has not
// begun stays. Once nothing else is to be written the change waits for that.
func (m *maker) settle(change *Change) {
	if change.Action != TakeBack || change.Reason != ReasonReturned || change.Braked || !m.staleDrift(change) {
		return
	}
	budgets, err := Braked(change.Object)
	if err != nil {
		return // there is no room for one more
	}
	change.Settles = budgets
	if change.onlyBudgets() && !Replaced(change.Live) && reflect.DeepEqual(BudgetsOf(change.Live), budgets) {
		change.Action, change.Reason, change.Force, change.WaitsFor = Wait, ReasonSettling, false, "NodeClaims of "+change.Ref.String()
		change.Message = fmt.Sprintf("%s is in Git again; plumbline restores its disruption budgets once Karpenter finds that its nodes match", change.Ref)
	}
}

// staleDrift reports whether Karpenter takes nodes for drifted, or will, that match what Git has: a removal has made them drift.
func (m *maker) staleDrift(change *Change) bool {
	if change.Ref.Kind != render.NodePool || !BudgetsAppliedBy(change.Live, v1alpha1.RemovalFieldManager) {
		return false
	}
	if Replaced(change.Live) {
		return true
	}
	pool, err := typed[karpv1.NodePool](change.Object.Defaulted)
	if err != nil {
		return false
	}
	hash := poolHash(pool)
	return slices.ContainsFunc(m.claims()[change.Ref], func(c *NodeClaim) bool {
		return c.DriftReason == DriftOfPool && !c.Deleting && !c.Disrupted && c.Hashes.Pool() == hash
	})
}

// Replaced reports whether the template of a pool has the label by which a removal makes its nodes drift.
func Replaced(live *unstructured.Unstructured) bool {
	labels, _, _ := unstructured.NestedMap(live.Object, "spec", "template", "metadata", "labels")
	_, bears := labels[v1alpha1.LeavingLabel]
	return bears
}

// Input is what outdates a NodeClaim: what it has, and what its definitions call for now. From is
// empty if that is not known, and To says why.
type Input struct{ From, To string }

// OfInstance reports whether a NodeClaim is outdated for a reason that only EC2 knows the inputs of: what
// an instance runs in is on no object.
func (o Outdated) OfInstance() bool {
	return slices.Contains([]string{driftOfGroup, driftOfSubnet, driftOfReservation}, o.Reason)
}

// ByAWS reports whether what AWS says outdates a NodeClaim, which changes without a change of its definitions.
func (o Outdated) ByAWS() bool {
	return o.Reason != DriftOfPool && o.Reason != driftOfRequirements && o.Reason != driftOfClass
}

// InstanceReasons returns Karpenter's reasons for which an instance does not match its EC2NodeClass, of those that only
// EC2 knows the inputs of. known is false while the status of the class is not of its spec, as Karpenter has not queried
// AWS since. Source: karpenter-provider-aws pkg/cloudprovider/drift.go.
func (m Match) InstanceReasons(c *NodeClaim, running Running) (reasons []string, known bool) {
	class := m.Live.object(render.Ref{Kind: render.EC2NodeClass, Name: c.Class})
	if class == nil {
		return nil, false
	}
	status := statusOf(class.Unstructured)
	for _, kind := range []string{awsv1.ConditionTypeSubnetsReady, awsv1.ConditionTypeSecurityGroupsReady} {
		if currentCondition(class.Unstructured, status, kind) != metav1.ConditionTrue {
			return nil, false
		}
	}
	a := Answer{Running: map[string]Running{c.ProviderID: running}}
	for _, s := range status.Subnets {
		a.Subnets.Found = append(a.Subnets.Found, s.ID)
	}
	for _, g := range status.SecurityGroups {
		a.SecurityGroups.Found = append(a.SecurityGroups.Found, g.ID)
	}
	for _, r := range status.CapacityReservations {
		a.Reservations.Found = append(a.Reservations.Found, r.ID)
	}
	for _, reason := range []string{driftOfGroup, driftOfSubnet, driftOfReservation} {
		if a.judge(reason)(c).drifts {
			reasons = append(reasons, reason)
		}
	}
	return reasons, true
}

// maxInputs is how many IDs an Input lists on each side.
const maxInputs = 5

// Input is what outdates a NodeClaim that the Match has found, by Karpenter's reason. running is
// what EC2 has said of its instance: it is empty, and unknown says why, where that is not known.
// Karpenter may have found it outdated by what is no more: then both sides are the same.
func (m Match) Input(o Outdated, running Running, unknown string) Input {
	c := o.Claim
	class, pool := render.Ref{Kind: render.EC2NodeClass, Name: c.Class}, render.Ref{Kind: render.NodePool, Name: c.Pool}
	if o.OfInstance() && unknown != "" {
		return Input{To: unknown}
	}
	switch o.Reason {
	case DriftOfPool:
		return m.inputOfHash(pool, c.Hashes.Pool(), m.Exact, "spec.template")
	case driftOfClass:
		return m.inputOfHash(class, c.Hashes.Class(), m.Exact && m.Memory.proven, "the spec and the cluster's CA bundle")
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
		return Input{From: strings.Join([]string{labels[corev1.LabelInstanceTypeStable], labels[karpv1.CapacityTypeLabelKey], labels[corev1.LabelTopologyZone]}, " "), To: "not offered by AWS"}
	}
	return Input{To: "plumbline does not support this drift reason"}
}

// inputOfHash is that of a hash, which does not tell which field it is of.
func (m Match) inputOfHash(ref render.Ref, made Hash, count bool, of string) Input {
	t := m.Memory.templates[ref]
	switch {
	case t == nil:
		return Input{To: ref.String() + " does not exist"}
	case made == "":
		return Input{To: "the NodeClaim has no hash"}
	}
	now := t.noted
	if count && t.counted.comparable(made) {
		now = t.counted
	}
	if !now.comparable(made) {
		return Input{To: "the hash of " + ref.String() + " is missing or has another version"}
	}
	return from("hash "+made.sum(), "hash "+now.sum(), fmt.Sprintf("%s, hash of %s; the hash does not show which field changed", now.version(), of))
}

// inputOfRequirements names the requirements that labels do not fit.
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

// inputOfAMI is the AMI that a NodeClaim runs, and the one that its class resolves to for it, with
// the terms that name one which moves.
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

// from is an Input with a remark on what is called for.
func from(has, wanted, remark string) Input {
	if has == wanted || remark == "" {
		return Input{From: has, To: wanted}
	}
	return Input{From: has, To: wanted + " (" + remark + ")"}
}

// movingTerms are the aliases and parameters of SSM in the spec of an EC2NodeClass: what they name
// may be another AMI by tomorrow.
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

// resolved are the IDs that an EC2NodeClass has in a list of its status.
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

// idList are IDs in an order that does not change, the first of them.
func idList(ids []string) string {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	if len(ids) == 0 {
		return "none"
	}
	return shortlist.Join(ids, maxInputs, ", ")
}
