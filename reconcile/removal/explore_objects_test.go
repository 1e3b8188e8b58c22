package removal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// shelf stores every form that a definition of the explored worlds has had: a world contains the number of a form, and
// equal forms have the same number. The result of each write is computed once, with a real server-side apply.
type shelf struct {
	t       testing.TB
	server  *applytest.Server
	forms   []*form
	numbers map[string]int
	writes  map[string]written
	git     map[string]render.Object
	plans   map[string]*plan.Plan
	memo    plan.Memo // of the last plan
	class   int       // the number of the form of the EC2NodeClass that stays
}

// form is one state of one definition. Its resourceVersion is its number.
type form struct {
	object *plan.Object
	grows  bool
	// restrained reports whether the removal's field manager owns something of it.
	restrained bool
	labelled   bool
	// limits reports whether its limits and its template are those in Git, and budgets whether its disruption budgets
	// are.
	limits, budgets bool
	// replaces reports whether all its nodes have drifted. budget is how many Karpenter may replace at a time.
	replaces   bool
	budget     int
	generation int
}

type written struct {
	number int
	err    error
}

// nowhere is the number of an object that does not exist.
const nowhere = -1

func newShelf(t testing.TB) *shelf {
	t.Helper()
	s := &shelf{t: t, server: applytest.New(t), numbers: map[string]int{}, writes: map[string]written{}, git: map[string]render.Object{}, plans: map[string]*plan.Plan{}}
	s.class = s.applied("")
	return s
}

const exploredClass = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %s}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
`

const exploredPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  disruption: {consolidateAfter: 0s, budgets: [{nodes: 30%%}]}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %s}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
  %s
`

// definition returns a pool in Git, or a class: that of pool a, or the default one. Every second pool has limits.
func (s *shelf) definition(pool string) render.Object {
	if known, ok := s.git[pool]; ok {
		return known
	}
	text := fmt.Sprintf(exploredClass, cmp.Or(pool, "default"))
	if pool != "" && pool != poolName(ownClass) {
		limits := ""
		if (pool[0]-'a')%2 == 0 {
			limits = `limits: {cpu: "100", memory: 1Ti}`
		}
		class := "default"
		if pool == poolName(0) {
			class = poolName(ownClass)
		}
		text = fmt.Sprintf(exploredPool, pool, class, limits)
	}
	s.git[pool] = s.server.Definition(s.t, text)
	return s.git[pool]
}

// applied returns the form of a pool, or of the class, after the first apply from Git.
func (s *shelf) applied(pool string) int {
	object := plan.Desired(s.definition(pool), exploredOwner)
	body, err := json.Marshal(object.Object)
	if err != nil {
		s.t.Fatal(err)
	}
	number, err := s.write(nowhere, 0, object, types.ApplyPatchType, body, v1alpha1.FieldManager, true)
	if err != nil {
		s.t.Fatal(err)
	}
	return number
}

// write returns the result of a patch to a form, or of a creation; generation is that of a new object.
func (s *shelf) write(before, generation int, like client.Object, kind types.PatchType, body []byte, manager string, force bool) (int, error) {
	key := fmt.Sprint(before, generation, like.GetName(), kind, manager, force) + string(body)
	if known, ok := s.writes[key]; ok {
		return known.number, known.err
	}
	s.server.Reset()
	if before != nowhere {
		s.server.Put(s.forms[before].object.DeepCopy())
	}
	answer := &unstructured.Unstructured{Object: map[string]any{}}
	answer.SetGroupVersionKind(like.GetObjectKind().GroupVersionKind())
	answer.SetName(like.GetName())
	options := []client.PatchOption{client.FieldOwner(manager)}
	if force {
		options = append(options, client.ForceOwnership)
	}
	made := written{number: nowhere}
	if made.err = s.server.Patch(s.t.Context(), answer, client.RawPatch(kind, body), options...); made.err == nil {
		if before == nowhere {
			answer.SetUID(uidOf(answer.GetName(), generation))
			answer.SetCreationTimestamp(metav1.NewTime(exploredNow))
			if generation == 0 {
				answer.SetCreationTimestamp(metav1.NewTime(exploredNow.Add(-long)))
			}
		}
		made.number = s.number(answer)
	}
	s.writes[key] = made
	return made.number, made.err
}

// number stores a form.
func (s *shelf) number(object *unstructured.Unstructured) int {
	entries := object.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	object.SetManagedFields(entries)
	object.SetResourceVersion("")
	text, err := json.Marshal(object.Object)
	if err != nil {
		s.t.Fatal(err)
	}
	if known, ok := s.numbers[string(text)]; ok {
		return known
	}
	number := len(s.forms)
	object.SetResourceVersion(strconv.Itoa(number + 1))
	f := &form{object: plan.NewObject(object), grows: plan.MayGrow(object), labelled: exploredOwner.Owns(object)}
	if object.GetKind() == render.NodePool {
		git := s.definition(object.GetName()).Defaulted
		f.limits = gocmp.Equal(limitsOf(object), limitsOf(git)) && gocmp.Equal(templateOf(object), templateOf(git))
		f.budgets = gocmp.Equal(budgetsOf(object), budgetsOf(git))
		f.replaces, f.budget = replacesBy(object)
	}
	for _, entry := range entries {
		f.restrained = f.restrained || entry.Manager == v1alpha1.RemovalFieldManager
	}
	_, generation, _ := strings.Cut(string(object.GetUID()), "-")
	f.generation, _ = strconv.Atoi(generation)
	s.forms, s.numbers[string(text)] = append(s.forms, f), number
	return number
}

func limitsOf(pool *unstructured.Unstructured) map[string]any {
	limits, _, _ := unstructured.NestedMap(pool.Object, "spec", "limits")
	if len(limits) == 0 {
		return nil
	}
	return limits
}

// uidOf returns the UID of a pool: a recreated one has another.
func uidOf(pool string, generation int) types.UID {
	return types.UID(fmt.Sprintf("%s-%d", pool, generation))
}

// edited returns a form after a person has restored its cpu limit.
func (s *shelf) edited(number int) int {
	key := fmt.Sprint("edited ", number)
	if known, ok := s.writes[key]; ok {
		return known.number
	}
	s.server.Reset()
	object := s.forms[number].object.DeepCopy()
	s.server.Put(object)
	ref := render.Ref{Kind: object.GetKind(), Name: object.GetName()}
	s.server.Edit(s.t.(applytest.TB), ref, "kubectl-edit", func(o *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(o.Object, "50", "spec", "limits", "cpu"); err != nil {
			s.t.Fatal(err)
		}
	})
	s.writes[key] = written{number: s.number(s.server.Object(ref))}
	return s.writes[key].number
}
