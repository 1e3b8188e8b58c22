package inventory

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"pgregory.net/rapid"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

func pool(name string) render.Ref { return render.Ref{Kind: render.NodePool, Name: name} }

func object(uid types.UID) *plan.Object {
	u := &unstructured.Unstructured{}
	u.SetUID(uid)
	return plan.NewObject(u)
}

func TestNext(t *testing.T) {
	class := render.Ref{Kind: render.EC2NodeClass, Name: "default"}
	cases := map[string]struct {
		before  map[render.Ref]types.UID
		owned   map[render.Ref]types.UID
		foreign Objects
		gone    map[types.UID]bool
		want    map[render.Ref]types.UID
	}{
		"what lives is recorded":                 {owned: map[render.Ref]types.UID{pool("a"): "1", class: "2"}, want: map[render.Ref]types.UID{pool("a"): "1", class: "2"}},
		"a pool that vanished stays":             {before: map[render.Ref]types.UID{pool("a"): "1"}, want: map[render.Ref]types.UID{pool("a"): "1"}},
		"a class that vanished does not":         {before: map[render.Ref]types.UID{class: "1"}, want: map[render.Ref]types.UID{}},
		"one that is verified gone does not":     {before: map[render.Ref]types.UID{pool("a"): "1"}, gone: map[types.UID]bool{"1": true}, want: map[render.Ref]types.UID{}},
		"nor where a cache still has it":         {owned: map[render.Ref]types.UID{pool("a"): "1"}, gone: map[types.UID]bool{"1": true}, want: map[render.Ref]types.UID{}},
		"one that is recreated has its new UID":  {before: map[render.Ref]types.UID{pool("a"): "1"}, owned: map[render.Ref]types.UID{pool("a"): "2"}, want: map[render.Ref]types.UID{pool("a"): "2"}},
		"one that lives as another's is dropped": {before: map[render.Ref]types.UID{pool("a"): "1"}, foreign: Objects{pool("a"): object("1")}, want: map[render.Ref]types.UID{}},
		"one whose name another's has stays":     {before: map[render.Ref]types.UID{pool("a"): "1"}, foreign: Objects{pool("a"): object("2")}, want: map[render.Ref]types.UID{pool("a"): "1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			live := Objects{}
			for ref, uid := range c.owned {
				live[ref] = object(uid)
			}
			for ref, o := range c.foreign {
				live[ref] = o
			}
			next := Next(Record{Objects: c.before}, c.owned, live, c.gone)
			if diff := cmp.Diff(c.want, next.Objects); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := Next(next, c.owned, live, c.gone); !again.Equal(next) {
				t.Errorf("it is written again without a cause: %v, then %v", next, again)
			}
		})
	}
}

// A pool stays in the record until it is verified gone, whatever happens to it, and
// its name for ever.
func TestNoPoolIsForgotten(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		r := Record{}
		live, open := Objects{}, map[render.Ref]types.UID{}
		serial := 0
		t.Repeat(map[string]func(*rapid.T){
			"pass": func(*rapid.T) {
				owned := map[render.Ref]types.UID{}
				for ref, o := range live {
					owned[ref] = o.GetUID()
				}
				r = Next(r, owned, live, nil)
				for ref, uid := range owned {
					open[ref] = uid
				}
				if diff := cmp.Diff(open, r.Objects); diff != "" {
					t.Fatalf("the record (-want +got):\n%s", diff)
				}
			},
			"create": func(t *rapid.T) {
				serial++
				ref := pool(rapid.StringMatching("[a-c]").Draw(t, "name"))
				if live[ref] == nil {
					live[ref] = object(types.UID(fmt.Sprint(serial)))
				}
			},
			"delete": func(t *rapid.T) { delete(live, pool(rapid.StringMatching("[a-c]").Draw(t, "name"))) },
		})
		for ref := range open {
			if !r.Pools[ref.Name] {
				t.Fatalf("%s was applied, and is not among %v", ref, r.Pools)
			}
		}
	})
}

func TestARecordOfTenThousandFits(t *testing.T) {
	r := Record{Objects: map[render.Ref]types.UID{}, Pools: map[string]bool{}}
	for i := range 10_000 {
		name := fmt.Sprintf("team-%04d-general-purpose", i)
		r.Objects[pool(name)] = uuid.NewUUID()
		r.Pools[name] = true
	}
	packed, err := encode(r)
	if err != nil {
		t.Fatal(err)
	}
	if most := 512 << 10; len(packed) > most {
		t.Errorf("packed it has %d bytes, want at most %d of the 1 MiB of a ConfigMap", len(packed), most)
	}
	unpacked, _, err := decode(packed)
	if err != nil || !unpacked.Equal(r) {
		t.Errorf("it comes back as another one: error %v", err)
	}
}

// FuzzDecode: a record is data that others can write.
func FuzzDecode(f *testing.F) {
	packed, err := encode(Record{Objects: map[render.Ref]types.UID{pool("a"): "1"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, _, err := decode(data)
		if err != nil {
			return
		}
		again, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		if back, _, err := decode(again); err != nil || len(back.Objects) != len(r.Objects) {
			t.Errorf("%v comes back as %v, error %v", r, back, err)
		}
	})
}
