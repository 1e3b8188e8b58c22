package awssim

import (
	"net/http"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// eksUpdate is an update of a node group or an add-on, which takes a moment.
type eksUpdate struct {
	id, kind string
	// of is the node group or the add-on.
	of   string
	ends time.Time
}

// updateTime is how long an update of EKS takes.
const updateTime = 500 * time.Millisecond

// beginUpdate starts an update.
func (a *account) beginUpdate(c *cluster, kind, of string) (*object, error) {
	if c.updates == nil {
		c.updates = map[string]*eksUpdate{}
	}
	u := &eksUpdate{id: newRequestID(), kind: kind, of: of, ends: a.now.Add(updateTime)}
	c.updates[u.id] = u
	return &object{"update": a.updateDocument(u)}, nil
}

// updating returns EKS's error if an update of a node group or an add-on is in progress.
func (a *account) updating(c *cluster, of string) error {
	for _, u := range c.updates {
		if u.of == of && a.now.Before(u.ends) {
			return wire.Errorf("ResourceInUseException", "%s cannot be updated as it currently has an update in progress", of).WithStatus(http.StatusConflict)
		}
	}
	return nil
}

func (a *account) updateDocument(u *eksUpdate) object {
	status := "Successful"
	if a.now.Before(u.ends) {
		status = "InProgress"
	}
	return object{"id": u.id, "status": status, "type": u.kind, "params": []object{}, "errors": []object{}}
}

func (a *account) describeUpdate(r *request, _ *struct{}) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	u := c.updates[r.path["update"]]
	values := r.http.URL.Query()
	if u == nil || values.Get("nodegroupName") != "" && values.Get("nodegroupName") != u.of || values.Get("addonName") != "" && values.Get("addonName") != u.of {
		return nil, eksNotFound("No update found for ID: %s", r.path["update"])
	}
	return &object{"update": a.updateDocument(u)}, nil
}
