package source

import (
	"fmt"
	"os"

	"github.com/plumbline-dev/plumbline/render"
)

// Folder is a folder on disk as a Snapshot, without a revision. No symlink in
// it leads out of it. It is held open for as long as the Snapshot is in use.
func Folder(dir string) (*render.Snapshot, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("read the folder %s: %w", dir, err)
	}
	return &render.Snapshot{FS: root.FS()}, nil
}
