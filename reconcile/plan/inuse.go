package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/render"
)

// InUse is a class that was deleted while NodePools name it. Its finalizer waits until
// no NodeClaim names it, Karpenter launches nothing from it meanwhile, and its Ready
// condition stays True (karpenter-provider-aws pkg/controllers/nodeclass/controller.go).
// That cannot be taken back.
type InUse struct {
	Class render.Ref
	// Since is when it was deleted.
	Since time.Time
	// Ours are the NodePools that name it and are in the Set, or are ours and leave;
	// Others are all other NodePools that do.
	Ours, Others []string
	// NodeClaims are how many name it.
	NodeClaims int
	// Commit is what of Git a commit has to change: to have NodePools of the Set name a copy of it. Its
	// Class is empty where that is not in the Set.
	Commit render.Rescue
}

// Message names who holds the class, and the way out.
func (u InUse) Message() string {
	var holders []string
	for _, pool := range u.Ours {
		holders = append(holders, render.Ref{Kind: render.NodePool, Name: pool}.String())
	}
	for _, pool := range u.Others {
		holders = append(holders, render.Ref{Kind: render.NodePool, Name: pool}.String()+" (not of this NodeSync)")
	}
	if more := len(holders) - named; more > 0 {
		holders = append(holders[:named], english.Plural(more, "more NodePool", ""))
	}
	if u.NodeClaims > 0 {
		holders = append(holders, english.Plural(u.NodeClaims, "NodeClaim", ""))
	}
	return fmt.Sprintf("%s is being deleted, which cannot be taken back, and no node is launched from it: it is in use by %s. %s: "+
		"their nodes are replaced, and this class then goes by itself", u.Class, strings.Join(holders, ", "), u.wayOut())
}

// wayOut is the commit that ends it.
func (u InUse) wayOut() string {
	if u.Commit.Class == (render.Ref{}) || len(u.Commit.Pools) == 0 {
		return "Add an EC2NodeClass under another name and point spec.template.spec.nodeClassRef.name of these NodePools at it, in one commit"
	}
	return fmt.Sprintf("%s (plumbline why %s prints it; with spec.removal.rescue: true plumbline does it by itself)", commitWords(u.Commit, "copy the class to"), u.Class)
}

// Brief is the Message for a commit status.
func (u InUse) Brief() string {
	pools := slices.Concat(u.Ours, u.Others)
	users := render.Ref{Kind: render.NodePool, Name: pools[0]}.String()
	if more := len(pools) - 1; more > 0 {
		users += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s is being deleted and in use by %s: add a class under another name and point nodeClassRef at it", u.Class, users)
}

// inUse finds the classes that the Set has, or that a NodePool of it names, and that
// were deleted while a NodePool names them.
func (m *maker) inUse() []InUse {
	deleted := map[render.Ref]*Object{}
	for ref, live := range m.live.Objects {
		if ref.Kind == render.EC2NodeClass && terminating(live) {
			deleted[ref] = live
		}
	}
	if len(deleted) == 0 {
		return nil
	}
	wanted, users := m.classUsers()
	var found []InUse
	for ref, live := range deleted {
		if !m.inSet[ref] && !wanted[ref] || len(users[ref]) == 0 {
			continue
		}
		u := InUse{Class: ref, Since: live.GetDeletionTimestamp().Time, NodeClaims: len(m.claims()[ref]), Commit: m.commitFor(ref)}
		moves := m.rescueOf(ref) != nil
		for pool, ours := range users[ref] {
			if ours && moves {
				continue
			}
			if ours {
				u.Ours = append(u.Ours, pool)
			} else {
				u.Others = append(u.Others, pool)
			}
		}
		slices.Sort(u.Ours)
		slices.Sort(u.Others)
		if len(u.Ours)+len(u.Others) > 0 {
			found = append(found, u)
		}
	}
	slices.SortFunc(found, func(a, b InUse) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Class.Name, b.Class.Name))
	})
	return found
}

// commitFor is what a commit has to change to have the Set's NodePools name a copy of a class.
func (m *maker) commitFor(class render.Ref) render.Rescue {
	set := &render.Set{Objects: m.objects}
	by := naming{set: set, live: m.live}.free(class)
	pools := poolsByClass(set)[class.Name]
	for _, object := range m.objects {
		if object.Ref == class {
			return rescueOf(object, by, pools)
		}
	}
	return render.Rescue{}
}

// rescueOf is that of a class; nil where no NodePool names a copy of it.
func (m *maker) rescueOf(class render.Ref) *render.Rescue {
	for i := range m.rescued {
		if m.rescued[i].Class == class {
			return &m.rescued[i]
		}
	}
	return nil
}

// classUsers are the classes that the Set's NodePools name, and for each class the
// NodePools that name it, by name, with whether they are ours.
func (m *maker) classUsers() (wanted map[render.Ref]bool, users map[render.Ref]map[string]bool) {
	wanted, users = map[render.Ref]bool{}, map[render.Ref]map[string]bool{}
	use := func(class render.Ref, pool string, ours bool) {
		if users[class] == nil {
			users[class] = map[string]bool{}
		}
		users[class][pool] = users[class][pool] || ours
	}
	for _, object := range m.objects {
		if class, ok := render.Reference(object.Ref, object.Desired); ok {
			wanted[class] = true
			use(class, object.Ref.Name, true)
		}
	}
	for ref, live := range m.live.Objects {
		if class, ok := render.Reference(ref, live.Unstructured); ok {
			use(class, ref.Name, m.inSet[ref] || m.policy.Owner.Owns(live))
		}
	}
	return wanted, users
}
