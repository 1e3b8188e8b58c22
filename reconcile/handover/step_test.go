package handover_test

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/handover"
)

// TestNext: the next step of each state, however it was reached. With a clone, it is known what was already committed.
func TestNext(t *testing.T) {
	applies, left := handover.Side{Applies: true, Left: true}, handover.Side{Left: true}
	in := func(s handover.Side) handover.Side { s.Has = true; return s }
	for name, test := range map[string]struct {
		handover.Object
		want  handover.Step
		waits bool
	}{
		"it begins":                             {handover.Object{From: applies}, handover.Mark, false},
		"it begins, with a clone":               {handover.Object{Cloned: true, From: in(applies)}, handover.Mark, false},
		"marked in Git":                         {handover.Object{Cloned: true, Marked: true, From: in(applies)}, handover.Mark, true},
		"marked":                                {handover.Object{Kept: true, From: applies}, handover.Move, false},
		"marked, with a clone":                  {handover.Object{Cloned: true, Marked: true, Kept: true, From: in(applies)}, handover.Move, false},
		"moved, and nobody has seen it":         {handover.Object{Cloned: true, Marked: true, Kept: true, From: applies, To: in(handover.Side{})}, handover.LetGo, true},
		"moved, and the other applies it first": {handover.Object{Kept: true, From: applies, To: applies}, handover.LetGo, true},
		"moved, and the first lets go of it":    {handover.Object{Kept: true, From: left}, handover.LetGo, true},
		"in both folders":                       {handover.Object{Cloned: true, Marked: true, Kept: true, From: in(applies), To: in(applies)}, handover.Move, false},
		"let go":                                {handover.Object{Kept: true, From: left, To: applies}, handover.Release, false},
		"released":                              {handover.Object{Kept: true, To: applies}, handover.Unmark, false},
		"unmarked":                              {handover.Object{To: applies}, handover.Done, false},
		"unmarked, with a clone":                {handover.Object{Cloned: true, To: in(applies)}, handover.Done, false},
		"the move was reverted, and seen":       {handover.Object{Cloned: true, Marked: true, Kept: true, From: in(applies), To: applies}, handover.Move, false},
		"the move was reverted, and not seen":   {handover.Object{Cloned: true, Marked: true, Kept: true, From: in(left), To: applies}, handover.Move, false},
		"the mark was reverted":                 {handover.Object{Cloned: true, Kept: false, From: in(applies)}, handover.Mark, false},
		"both were reverted after all":          {handover.Object{Cloned: true, From: in(applies), To: applies}, handover.Mark, false},
		"moved without a mark":                  {handover.Object{Cloned: true, From: applies, To: in(applies)}, handover.Mark, false},
	} {
		t.Run(name, func(t *testing.T) {
			if step, waits := test.Next(); step != test.want || waits != test.waits {
				t.Errorf("%s, waits %t; want %s, %t", step, waits, test.want, test.waits)
			}
		})
	}
}

// TestNothingMovesUnmarked: in every state, while the old tool has an object that is not marked in the cluster, no file
// moves and nothing waits for that tool to release it; and nothing is removed before the old tool has released it.
func TestNothingMovesUnmarked(t *testing.T) {
	for bits := range 1 << 9 {
		on := func(bit int) bool { return bits&(1<<bit) != 0 }
		o := handover.Object{
			Kept: on(0), Cloned: on(1), Marked: on(2),
			From: handover.Side{Applies: on(3), Has: on(4) && on(1), Left: on(5)},
			To:   handover.Side{Applies: on(6), Has: on(7) && on(1), Left: on(8)},
		}
		step, _ := o.Next()
		if (o.From.Applies || o.From.Has) && !o.Kept && step != handover.Mark {
			t.Errorf("%+v: %s", o, step)
		}
		if (step == handover.Release || step == handover.Unmark || step == handover.Done) && (o.From.Applies || o.From.Has || !o.To.Applies) {
			t.Errorf("%+v: %s", o, step)
		}
	}
}
