// Package deploy brings a CloudFormation stack to a template: it plans by a change set, executes it, and follows the stack's
// events. It decides nothing: bootstrap.Next does.
//
// It keeps no state of its own. A run that was interrupted is continued by another one, which reads the stack.
package deploy
