package promotion

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/plumbline-dev/plumbline/render/document"
)

// SetPaused returns the text of rings.yaml with a ring paused for a reason, or, if the reason is empty, resumed. Nothing
// else of the text changes: comments and order are kept. changed is false if the ring is in that state already.
func SetPaused(data []byte, ring, reason string) (edited []byte, changed bool, err error) {
	before, err := Parse(File, data)
	if err != nil {
		return nil, false, err
	}
	of := before.Named(ring)
	if of == nil {
		var names []string
		for _, r := range before.Rings {
			names = append(names, r.Name)
		}
		return nil, false, fmt.Errorf("%s has no ring %s: it has %s", File, ring, strings.Join(names, ", "))
	}
	reason = strings.NewReplacer(`"`, "'", `\`, "/").Replace(reason) // so that a later edit finds it as it is written
	if of.Paused == reason {
		return data, false, nil
	}
	documents, err := document.Parse(data)
	if err != nil {
		return nil, false, err
	}
	index := indexOf(documents, ring)
	at := []string{"rings", strconv.Itoa(index), "paused"}
	if edited, err = document.Unset(data, at...); err == nil && reason != "" {
		edited, err = document.Set(edited, reason, at...)
	}
	if err != nil {
		return nil, false, fmt.Errorf("edit %s: %w", File, err)
	}
	after, err := Parse(File, edited)
	if err != nil || after.Named(ring) == nil || after.Named(ring).Paused != reason {
		return nil, false, errors.Join(fmt.Errorf("%s cannot be edited in this form: set rings[%d].paused by hand", File, index), err)
	}
	return edited, true, nil
}

// indexOf returns the index of a ring in the file, which is valid.
func indexOf(documents []document.Document, ring string) int {
	top, _ := documents[0].Value.(map[string]any)
	list, _ := top["rings"].([]any)
	return slices.IndexFunc(list, func(item any) bool {
		fields, _ := item.(map[string]any)
		return fields["name"] == ring
	})
}
