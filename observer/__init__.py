"""The observer: discover, collect, measure, judge, publish. It watches and acts on nothing."""
