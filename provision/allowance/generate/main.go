// Command generate writes the content of Karpenter's released charts: the names of their CRDs and objects, what the
// CRDs define, and the rules of the roles.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plumbline-dev/plumbline/internal/modcache"
	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

// released are versions of all minor releases since 1.1, the first without webhooks: earlier charts need permissions
// for Secrets and CRDs.
var released = []string{"1.3.3", "1.6.3", "1.8.6", "1.12.1", "1.14.1", "1.14.3", karpenter.Newest()}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate FILE")
		os.Exit(1)
	}
	text, err := generate(context.Background())
	if err == nil {
		err = os.WriteFile(os.Args[1], text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(ctx context.Context) ([]byte, error) {
	crds, fingerprints := kinds{}, map[string]map[string]string{}
	objects, rights, variables := map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]bool{}
	add := func(to map[string]map[string]bool, key, value string) {
		if to[key] == nil {
			to[key] = map[string]bool{}
		}
		to[key][value] = true
	}
	for _, version := range released {
		found, folder, err := open(ctx, version)
		if err != nil {
			return nil, err
		}
		if err := variablesOf(folder, variables); err != nil {
			return nil, err
		}
		all, err := found.CRDs(ctx)
		if err != nil {
			return nil, err
		}
		fingerprints[version] = map[string]string{}
		for _, crd := range all {
			crds[crd.Name] = append(crds[crd.Name], crd)
			if fingerprints[version][crd.Name], err = allowance.Fingerprint(crd); err != nil {
				return nil, err
			}
		}
		rendered, err := found.Controller(ctx, charts.Installation{Namespace: "kube-system", Cluster: "any", Region: "any"})
		if err != nil {
			return nil, err
		}
		for _, object := range rendered {
			add(objects, object.GetKind(), object.GetName())
			rules, err := rulesOf(object)
			if err != nil {
				return nil, err
			}
			for _, right := range rules {
				add(rights, object.GetKind()+" "+object.GetName(), right)
			}
		}
	}
	// It is rendered only if the cluster has its CRD.
	add(objects, "ServiceMonitor", charts.ControllerChart)
	text, err := json.MarshalIndent(allowance.Charted{
		CRDs: slices.Sorted(maps.Keys(crds)), Kinds: crds.defined(), Fingerprints: fingerprints, Objects: sorted(objects),
		Variables: slices.Sorted(maps.Keys(variables)), Rights: sorted(rights),
	}, "", "  ")
	return append(text, '\n'), err
}

// kinds are the CRDs of all released charts, by name.
type kinds map[string][]*apiextensionsv1.CustomResourceDefinition

// defined returns the kinds that they define, with the versions that all of the charts serve.
func (k kinds) defined() map[string]allowance.Defined {
	all := map[string]allowance.Defined{}
	for name, crds := range k {
		newest := crds[len(crds)-1].Spec
		defined := allowance.Defined{Kind: newest.Names.Kind, Scope: string(newest.Scope)}
		for _, version := range newest.Versions {
			lacks := func(crd *apiextensionsv1.CustomResourceDefinition) bool { return !allowance.Serves(crd, version.Name) }
			if len(crds) == len(released) && !slices.ContainsFunc(crds, lacks) {
				defined.Serves = append(defined.Serves, version.Name)
			}
		}
		all[name] = defined
	}
	return all
}

func sorted(sets map[string]map[string]bool) map[string][]string {
	lists := map[string][]string{}
	for key, set := range sets {
		lists[key] = slices.Sorted(maps.Keys(set))
	}
	return lists
}

// open returns a version's charts from Go's module cache, and downloads them first if necessary. It also returns their
// folder.
func open(ctx context.Context, version string) (found *charts.Charts, folder string, err error) {
	module, err := modcache.Folder(ctx, "github.com/aws/karpenter-provider-aws@v"+version)
	if err != nil {
		return nil, "", err
	}
	folder = filepath.Join(module, "charts")
	found, err = charts.FromFolder(folder)
	return found, folder, err
}

// variable matches a variable of the controller in the template of its Deployment, even if only some values render it.
var variable = regexp.MustCompile(`(?m)^\s*- name: ([A-Z][A-Z0-9_]*)$`)

// variablesOf adds the names of the controller's variables in a folder with charts.
func variablesOf(folder string, names map[string]bool) error {
	text, err := os.ReadFile(filepath.Join(folder, charts.ControllerChart, "templates", "deployment.yaml"))
	if err != nil {
		return fmt.Errorf("read the controller's Deployment: %w", err)
	}
	found := variable.FindAllSubmatch(text, -1)
	if len(found) == 0 {
		return fmt.Errorf("the controller's Deployment in %s has no variables", folder)
	}
	for _, one := range found {
		names[string(one[1])] = true
	}
	return nil
}

// rulesOf returns the permissions of a role; none for any other object.
func rulesOf(object *unstructured.Unstructured) ([]string, error) {
	if kind := object.GetKind(); kind != "Role" && kind != "ClusterRole" {
		return nil, nil
	}
	var role rbacv1.ClusterRole // a Role has its rules in the same field
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	var rights []string
	for _, rule := range role.Rules {
		rights = append(rights, allowance.Rights(rule)...)
	}
	return rights, nil
}
