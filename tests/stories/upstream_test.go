package stories_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// provider is the module with Karpenter's examples, at the version of the module that the sandbox's controller is built
// from.
const provider = "github.com/aws/karpenter-provider-aws"

// example reads one of upstream's examples from the module cache.
func (s *story) example(name string) ([]byte, error) {
	list := exec.CommandContext(s.ctx, "go", "list", "-m", "-f", "{{.Dir}}", provider)
	list.Dir = filepath.Join(s.root, "tests", "sandbox", "bin", "karpenter")
	dir, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("find upstream's examples: %w", err)
	}
	return os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "examples", "v1", name+".yaml"))
}

func (s *story) upstreamCommand(_ *testscript.TestScript, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return errors.New("usage: upstream EXAMPLE [FOLDER]")
	}
	folder := "nodes"
	if len(args) == 2 {
		folder = args[1]
	}
	data, err := s.example(args[0])
	if err != nil {
		return err
	}
	return s.repo.Write(folder+"/upstream.yaml", data)
}

func (s *story) userdataCommand(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: userdata CLASS EXAMPLE")
	}
	data, err := s.example(args[1])
	if err != nil {
		return err
	}
	want, err := userDataIn(data, args[0])
	if err != nil {
		return err
	}
	want = strings.ReplaceAll(want, "${CLUSTER_NAME}", s.c.Cluster)
	return s.poll(defaultWait, func(ctx context.Context) error {
		class, err := s.get(ctx, "ec2nodeclass/"+args[0])
		if err != nil {
			return err
		}
		got, _, _ := unstructured.NestedString(class.Object, "spec", "userData")
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("user data of EC2NodeClass/%s (-want +got):\n%s", args[0], diff)
		}
		return nil
	})
}

// userDataIn returns the user data of a class in a file of several documents.
func userDataIn(documents []byte, class string) (string, error) {
	for _, document := range bytes.Split(documents, []byte("\n---")) {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct{ UserData string }
		}
		if err := yaml.Unmarshal(document, &object); err != nil {
			return "", err
		}
		if object.Kind == "EC2NodeClass" && object.Metadata.Name == class {
			return object.Spec.UserData, nil
		}
	}
	return "", fmt.Errorf("there is no EC2NodeClass %s", class)
}
