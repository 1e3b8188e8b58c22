package catalog_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/catalog"
)

// TestNumbersAreKarpenters compares the catalog with the tables from which Karpenter's AWS provider was generated. It
// reads them as source: importing them would link all of Karpenter into this test.
func TestNumbersAreKarpenters(t *testing.T) {
	dir := providerDir(t)
	limits := networkLimits(t, filepath.Join(dir, "pkg/providers/instancetype/zz_generated.vpclimits.go"))
	prices := usEast1Prices(t, filepath.Join(dir, "pkg/providers/pricing/zz_generated.pricing_aws.go"))
	for _, it := range catalog.InstanceTypes() {
		want, ok := limits[it.Name]
		if !ok {
			t.Errorf("%s: Karpenter does not know it", it.Name)
			continue
		}
		if it.Interfaces != want.interfaces || it.AddressesPerInterface != want.addresses {
			t.Errorf("%s: %d interfaces with %d addresses, Karpenter says %d with %d",
				it.Name, it.Interfaces, it.AddressesPerInterface, want.interfaces, want.addresses)
		}
		if it.Metal != want.metal {
			t.Errorf("%s: bare metal is %t, Karpenter says %t", it.Name, it.Metal, want.metal)
		}
		if it.OnDemandUSD != prices[it.Name] {
			t.Errorf("%s: %g USD an hour, Karpenter says %g", it.Name, it.OnDemandUSD, prices[it.Name])
		}
	}
}

func TestEveryTypeIsWhole(t *testing.T) {
	zones := []string{"a", "b", "c"}
	for _, it := range catalog.InstanceTypes() {
		if it.Arch == "" || it.VCPU == 0 || it.MemoryMiB == 0 || len(it.Zones(zones)) < 2 {
			t.Errorf("%+v lacks its architecture, size or zones", it)
		}
		if it.SpotUSD(0) >= it.OnDemandUSD || it.SpotUSD(0) >= it.SpotUSD(1) {
			t.Errorf("%s: spot costs %g and %g, on demand %g", it.Name, it.SpotUSD(0), it.SpotUSD(1), it.OnDemandUSD)
		}
	}
}

func TestImagesAreDistinct(t *testing.T) {
	ids, parameters := map[string]bool{}, map[string]bool{}
	for _, i := range catalog.Images() {
		if ids[i.ID] {
			t.Errorf("two images have the ID %s", i.ID)
		}
		ids[i.ID] = true
		for _, p := range i.Parameters {
			if parameters[p] {
				t.Errorf("two images have the parameter %s", p)
			}
			parameters[p] = true
		}
	}
}

// providerDir returns the folder of the provider's module from which the sandbox's Karpenter is built.
func providerDir(t *testing.T) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/karpenter-provider-aws")
	list.Dir = filepath.Join("..", "..", "bin", "karpenter")
	out, err := list.Output()
	dir := string(bytes.TrimSpace(out))
	if err != nil || dir == "" {
		t.Fatalf("finding karpenter-provider-aws in the module cache (run go mod download in %s): %v", list.Dir, err)
	}
	return dir
}

type networkLimit struct {
	interfaces, addresses int64
	metal                 bool
}

// networkLimits reads the map of instance types to &VPCLimits{…}.
func networkLimits(t *testing.T, file string) map[string]networkLimit {
	t.Helper()
	limits := map[string]networkLimit{}
	each(t, file, func(name string, value ast.Expr) {
		composite, ok := value.(*ast.CompositeLit)
		if !ok {
			return
		}
		var l networkLimit
		for _, e := range composite.Elts {
			field, ok := e.(*ast.KeyValueExpr)
			if !ok {
				return
			}
			switch key := field.Key.(*ast.Ident).Name; key {
			case "Interface":
				l.interfaces = int64(number(field.Value))
			case "IPv4PerInterface":
				l.addresses = int64(number(field.Value))
			case "IsBareMetal":
				l.metal = field.Value.(*ast.Ident).Name == "true"
			}
		}
		limits[name] = l
	})
	return limits
}

// usEast1Prices reads the first region's map of instance types to prices, which
// is us-east-1's.
func usEast1Prices(t *testing.T, file string) map[string]float64 {
	t.Helper()
	prices := map[string]float64{}
	each(t, file, func(name string, value ast.Expr) {
		if _, seen := prices[name]; !seen && number(value) > 0 {
			prices[name] = number(value)
		}
	})
	if prices["m5.large"] == 0 {
		t.Fatalf("%s has no price for m5.large: has its form changed?", file)
	}
	return prices
}

// each calls f for every "name": value in a source file, from top to bottom.
func each(t *testing.T, file string, f func(name string, value ast.Expr)) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		if key, ok := pair.Key.(*ast.BasicLit); ok && key.Kind == token.STRING {
			if name, err := strconv.Unquote(key.Value); err == nil {
				f(name, pair.Value)
			}
		}
		return true
	})
}

func number(e ast.Expr) float64 {
	literal, ok := e.(*ast.BasicLit)
	if !ok {
		return 0
	}
	v, err := strconv.ParseFloat(literal.Value, 64)
	if err != nil {
		return 0
	}
	return v
}
