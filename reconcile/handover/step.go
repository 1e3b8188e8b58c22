package handover

import "github.com/plumbline-dev/plumbline/render"

// Step is what is next in a hand-over.
type Step string

// The steps, in their order.
const (
	// Mark has the definition annotated in its file, so that no tool removes it.
	Mark Step = "Mark"
	// Move has its file move, in one commit.
	Move Step = "Move"
	// LetGo has the one tool see that, and the other apply it.
	LetGo Step = "LetGo"
	// Release takes off what the one has left on the object: labels, annotations, fields.
	Release Step = "Release"
	// Unmark takes the annotation out again.
	Unmark Step = "Unmark"
	// Done says that nothing is left to do.
	Done Step = "Done"
)

// Steps are all of them, in their order.
func Steps() []Step { return []Step{Mark, Move, LetGo, Release, Unmark, Done} }

// Side is what one of the two has of a definition.
type Side struct {
	// Applies says that it applies the object: Flux lists it in its inventory and Argo CD among the
	// resources of its folder, and plumbline has its label on it.
	Applies bool
	// Has says that the object's file is in its folder; known of a clone only.
	Has bool
	// Left says that the object has labels, annotations or managed fields of it.
	Left bool
}

// Object is one definition, and where it stands.
type Object struct {
	Ref render.Ref
	// Kept says that the mark is on the object in the cluster, where tools read it.
	Kept bool
	// From hands it over, and To gets it.
	From, To Side
	// Cloned says that the files are known, and Marked that the mark is in the object's.
	Cloned, Marked bool
}

// Next is the step of an object. waits says that there is nothing to do but wait: it is done in
// Git, or another tool has to act.
func (o Object) Next() (step Step, waits bool) {
	switch {
	case !o.Kept && (o.From.Applies || o.From.Has):
		return Mark, o.Marked
	case o.Cloned && (o.From.Has || !o.To.Has), !o.Cloned && o.From.Applies && !o.To.Applies:
		return Move, false
	case o.From.Applies || !o.To.Applies:
		return LetGo, true
	case o.From.Left:
		return Release, false
	case o.Kept:
		return Unmark, false
	}
	return Done, false
}
