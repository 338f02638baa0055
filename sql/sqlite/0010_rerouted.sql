-- Where events went that an operator sent to another topic (0007) is shown for a week, and for as long as they are parked.
CREATE INDEX sealane_rerouted_at ON sealane_rerouted (route, at);
