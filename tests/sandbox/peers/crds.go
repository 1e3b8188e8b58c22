package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// How long a CRD may take until it is served, and how often to check.
const (
	served    = time.Minute
	lookEvery = 50 * time.Millisecond
)

// crds are the CRDs of a module.
type crds struct {
	module, version string
	// files are paths within it.
	files []string
	// paths are the API server's paths of their objects.
	paths []string
}

// install applies them, and waits until they are served: a controller that starts earlier retries only after ten
// seconds.
func (o Options) install(ctx context.Context, all ...crds) error {
	for _, c := range all {
		manifest, err := moduleFiles(ctx, c.module+"@v"+c.version, c.files)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrMissing, err)
		}
		if _, err := o.Kube.Kubectl(ctx, manifest, "apply", "--server-side", "-f", "-"); err != nil {
			return err
		}
		for _, path := range c.paths {
			if err := o.awaitServed(ctx, path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o Options) awaitServed(ctx context.Context, path string) error {
	server := o.Kube.Client.Discovery().RESTClient()
	err := wait.PollUntilContextTimeout(ctx, lookEvery, served, true, func(ctx context.Context) (bool, error) {
		return server.Get().AbsPath(path).Param("limit", "1").Do(ctx).Error() == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s to be served: %w", path, err)
	}
	return nil
}

// moduleFiles reads files of a Go module, which go downloads if needed, as one manifest.
func moduleFiles(ctx context.Context, module string, names []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("download %s: %w: %s", module, err, out)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("download %s: %w", module, err)
	}
	var all []byte
	for _, name := range names {
		file, err := os.ReadFile(filepath.Join(found.Dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, fmt.Errorf("read a file of %s: %w", module, err)
		}
		all = append(append(all, file...), "\n---\n"...)
	}
	return all, nil
}
