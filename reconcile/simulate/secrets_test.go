package simulate

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

var update = flag.Bool("update", false, "rewrite the golden")

// plant sets each string of a value to a text that names its field, with one entry in each list and map.
func plant(v reflect.Value, at string) {
	switch v.Interface().(type) {
	case metav1.Time, resource.Quantity, intstr.IntOrString, metav1.FieldsV1:
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("SECRET<" + at + ">")
	case reflect.Pointer:
		if strings.Count(at, ".") > 12 {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		plant(v.Elem(), at)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				plant(v.Field(i), at+"."+v.Type().Field(i).Name)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte("SECRET<" + at + ">"))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		plant(v.Index(0), at)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		plant(key, at+".key")
		plant(value, at+".value")
		v.SetMapIndex(key, value)
	default:
	}
}

func planted[T any](kind string) *T {
	o := new(T)
	plant(reflect.ValueOf(o).Elem(), kind)
	return o
}

// TestASnapshotHasNothingButWhatSchedulingReads sets a text in each field of each kind. The fields that are in the file
// are in a golden file, so that an additional field is visible in review.
func TestASnapshotHasNothingButWhatSchedulingReads(t *testing.T) {
	daemons := planted[appsv1.DaemonSet]("DaemonSet")
	pod := planted[corev1.Pod]("Pod")
	pod.Spec.Containers[0].Ports[0].HostPort = 80
	claim := planted[karpv1.NodeClaim]("NodeClaim")
	claim.Spec.ExpireAfter = karpv1.NillableDuration{} // it has custom JSON
	c := &Capture{
		Version: Version, Pods: []corev1.Pod{trimPod(pod)}, DaemonSets: []appsv1.DaemonSet{trimDaemonSet(daemons)},
		Nodes: []corev1.Node{trimNode(planted[corev1.Node]("Node"))}, NodeClaims: []karpv1.NodeClaim{trimNodeClaim(claim)},
		Namespaces: []corev1.Namespace{trimNamespace(planted[corev1.Namespace]("Namespace"))},
		Budgets:    []policyv1.PodDisruptionBudget{trimBudget(planted[policyv1.PodDisruptionBudget]("Budget"))},
		Claims:     []corev1.PersistentVolumeClaim{trimClaim(planted[corev1.PersistentVolumeClaim]("Claim"))},
		Volumes:    []corev1.PersistentVolume{trimVolume(planted[corev1.PersistentVolume]("Volume"))},
		Classes:    []storagev1.StorageClass{trimClass(planted[storagev1.StorageClass]("Class"))},
		CSINodes:   []storagev1.CSINode{trimCSINode(planted[storagev1.CSINode]("CSINode"))},
	}
	c.Settings.readVariables([]corev1.EnvVar{*planted[corev1.EnvVar]("EnvVar")})
	file := &bytes.Buffer{}
	if err := c.Encode(file); err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, part := range strings.Split(strings.ReplaceAll(string(text), `\u003c`, "<"), "SECRET<")[1:] {
		field, _, _ := strings.Cut(strings.ReplaceAll(part, `\u003e`, ">"), ">")
		found[field] = true
	}
	var kept []string
	for field := range found {
		kept = append(kept, field)
	}
	slices.Sort(kept)
	golden := filepath.Join("testdata", "kept.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(kept, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(want)), strings.Join(kept, "\n")); diff != "" {
		t.Errorf("fields in the file (-want +got):\n%s", diff)
	}
	for _, never := range []string{"Env", "Command", "Args", "Image", "Secret", "ConfigMap", "Annotations", "ManagedFields", "Finalizers", "Parameters", "VolumeHandle", "Message"} {
		if i := slices.IndexFunc(kept, func(f string) bool { return slices.Contains(strings.Split(f, "."), never) }); i >= 0 {
			t.Errorf("%s is in the file", kept[i])
		}
	}
}
