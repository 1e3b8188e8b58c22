package stories_test

import (
	"fmt"
	"os"
	"path/filepath"
)

// pushArtifact pushes the files of the clone's HEAD as Flux's CLI packs them.
func (s *story) pushArtifact(tag string) error {
	packed := filepath.Join(s.dir, "artifact.tar.gz")
	if out, err := s.program(s.ctx, "git", "archive", "--output="+packed, "HEAD^{tree}"); err != nil { // an archive of a commit has a header that is not a file
		return fmt.Errorf("pack the clone's HEAD: %w: %s", err, out)
	}
	content, err := os.ReadFile(packed)
	if err != nil {
		return err
	}
	return s.c.Charts.PushFiles(s.ctx, "fleet", tag, content)
}
