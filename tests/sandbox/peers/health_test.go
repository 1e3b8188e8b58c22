package peers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
	"sigs.k8s.io/yaml"
)

// customizations matches the health checks in the layout of Argo CD's repository.
const customizations = "../../../manifests/argocd/*/*/*/health.lua"

// health is what a script reports for an object.
type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// TestHealthScript runs the cases of each health.lua as the test in Argo CD's own repository does, with Argo CD's Lua.
func TestHealthScript(t *testing.T) {
	scripts, err := filepath.Glob(customizations)
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts match %s: %v", customizations, err)
	}
	for _, script := range scripts {
		dir := filepath.Dir(script)
		var cases struct {
			Tests []struct {
				InputPath    string `json:"inputPath"`
				HealthStatus health `json:"healthStatus"`
			} `json:"tests"`
		}
		read(t, filepath.Join(dir, "health_test.yaml"), &cases)
		for _, c := range cases.Tests {
			t.Run(filepath.Join(filepath.Base(filepath.Dir(filepath.Dir(dir))), c.InputPath), func(t *testing.T) {
				var object map[string]any
				read(t, filepath.Join(dir, c.InputPath), &object)
				if diff := cmp.Diff(c.HealthStatus, run(t, script, object)); diff != "" {
					t.Errorf("health of %s (-case +script):\n%s", c.InputPath, diff)
				}
			})
		}
	}
}

// run runs a script for an object, with as little of Lua's library as Argo CD provides.
func run(t *testing.T, script string, object map[string]any) health {
	t.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		l.Push(l.NewFunction(open))
		l.Push(lua.LString(name))
		l.Call(1, 0)
	}
	l.SetGlobal("obj", value(l, object))
	if err := l.DoFile(script); err != nil {
		t.Fatal(err)
	}
	said, is := l.Get(-1).(*lua.LTable)
	if !is {
		t.Fatalf("%s returns a %s", script, l.Get(-1).Type())
	}
	return health{lua.LVAsString(said.RawGetString("status")), lua.LVAsString(said.RawGetString("message"))}
}

// value converts a value of an object to Lua.
func value(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case nil:
		return lua.LNil
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case []any:
		list := l.NewTable()
		for _, item := range v {
			list.Append(value(l, item))
		}
		return list
	case map[string]any:
		table := l.NewTable()
		for key, item := range v {
			table.RawSetString(key, value(l, item))
		}
		return table
	default:
		panic(fmt.Sprintf("%T is none of JSON's", v))
	}
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
