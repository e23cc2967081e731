//! The functions on datatypes (MPI 5.0 chapter 5); [`crate::datatype`] implements them.

use std::ffi::{OsStr, OsString};
use std::rc::Rc;
use std::sync::Arc;

use hikyaku_nic::ring::copy;

use crate::arguments::Elements;
use crate::communicators::Comm;
use crate::datatype::{
    self, Basic, Datatype, DatatypeError, DistributedDimension, Distribution, Integer, Order,
    TypeClass, Width,
};
use crate::dialect::{Dialect, Handle, Object, Status, UNDEFINED};
use crate::failure::{Class, Failure};
use crate::raw::{
    self, Buffer, HandleAt, Handles, HandlesAt, NumberAt, Numbers, NumbersAt, Out, TextAt, cut,
    length,
};
use crate::runtime::Mpi;
use crate::types::Type;

/// A new datatype, or an error.
type Made = Result<Datatype, DatatypeError>;

/// Checks a count of elements.
fn elements(count: i64) -> Result<usize, Failure> {
    raw::count(count)
}

impl<D: Dialect> Mpi<D> {
    /// Gives a new datatype a handle.
    fn add_type(&self, made: Made, into: &HandleAt<D>) -> Result<(), Failure> {
        self.give_handle(self.made(made)?, into).map(drop)
    }

    fn made(&self, made: Made) -> Result<Type, Failure> {
        let made = made?;
        Ok(Type::of(if self.is_large { made.with_large_counts() } else { made }))
    }

    fn give_handle(&self, made: Type, into: &HandleAt<D>) -> Result<Rc<Type>, Failure> {
        let made = Rc::new(made);
        let handle = self.state.types.add(Rc::clone(&made))?;
        made.handle.set(handle);
        into.set(handle);
        Ok(made)
    }

    /// MPI_Type_contiguous.
    pub fn type_contiguous(
        &self,
        count: i64,
        old: Rc<Type>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.add_type(Datatype::contiguous(count, &old.datatype), &into)
    }

    /// MPI_Type_vector.
    pub fn type_vector(
        &self,
        count: i64,
        length: i64,
        stride: i64,
        old: Rc<Type>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.add_type(Datatype::vector(count, length, stride, &old.datatype), &into)
    }

    /// MPI_Type_create_hvector.
    pub fn type_create_hvector(
        &self,
        count: i64,
        length: i64,
        stride: i64,
        old: Rc<Type>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.add_type(Datatype::hvector(count, length, stride, &old.datatype), &into)
    }

    /// MPI_Type_indexed.
    pub fn type_indexed(
        &self,
        count: i64,
        lengths: Numbers,
        displacements: Numbers,
        old: Rc<Type>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let (lengths, displacements) = lists(count, lengths, displacements)?;
        self.add_type(Datatype::indexed(&lengths, &displacements, &old.datatype), &into)
    }

    /// MPI_Type_create_hindexed.
    pub fn type_create_hindexed(
        &self,
        count: i64,
        lengths: Numbers,
        displacements: Numbers,
        old: Rc<Type>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let (lengths, displacements) = lists(count, lengths, displacements)?;
        self.add_type(Datatype::hindexed(&lengths, &displacements, &old.datatype), &into)
    }

    /// MPI_Type_create_indexed_block.
    pub fn type_create_indexed_block(
        &self,
        count: i64,
        length: i64,
        displacements: Numbers,
        old: Rc<Type>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let displacements = displacements.all(elements(count)?, "array_of_displacements")?;
        self.add_type(Datatype::indexed_block(length, &displacements, &old.datatype), &into)
    }

    /// MPI_Type_create_hindexed_block.
    pub fn type_create_hindexed_block(
        &self,
        count: i64,
        length: i64,
        displacements: Numbers,
        old: Rc<Type>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let displacements = displacements.all(elements(count)?, "array_of_displacements")?;
        self.add_type(Datatype::hindexed_block(length, &displacements, &old.datatype), &into)
    }

    /// MPI_Type_create_struct.
    pub fn type_create_struct(
        &self,
        count: i64,
        lengths: Numbers,
        displacements: Numbers,
        types: Handles<D>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let (lengths, displacements) = lists(count, lengths, displacements)?;
        let types = self.types_of(&types.all(elements(count)?, "array_of_types")?)?;
        self.add_type(Datatype::create_struct(&lengths, &displacements, &types), &into)
    }

    /// MPI_Type_create_subarray.
    #[allow(clippy::too_many_arguments)]
    pub fn type_create_subarray(
        &self,
        dimensions: i32,
        sizes: Numbers,
        subsizes: Numbers,
        starts: Numbers,
        order: i32,
        old: Rc<Type>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let count = raw::dimensions(dimensions)?;
        let sizes = sizes.all(count, "array_of_sizes")?;
        let subsizes = subsizes.all(count, "array_of_subsizes")?;
        let starts = starts.all(count, "array_of_starts")?;
        let order = order_of::<D>(order)?;
        self.add_type(Datatype::subarray(&sizes, &subsizes, &starts, order, &old.datatype), &into)
    }

    /// MPI_Type_create_darray.
    #[allow(clippy::too_many_arguments)]
    pub fn type_create_darray(
        &self,
        size: i32,
        rank: i32,
        dimensions: i32,
        sizes: Numbers,
        distributions: Numbers,
        arguments: Numbers,
        processes: Numbers,
        order: i32,
        old: Rc<Type>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let count = raw::dimensions(dimensions)?;
        let sizes = sizes.all(count, "array_of_gsizes")?;
        let distributions = distributions.all(count, "array_of_distribs")?;
        let arguments = arguments.all(count, "array_of_dargs")?;
        let processes = processes.all(count, "array_of_psizes")?;
        let dimension = |at: usize| {
            let argument = arguments[at];
            let is_default = argument == i64::from(D::DISTRIBUTIONS[3]);
            Ok(DistributedDimension {
                elements: sizes[at],
                distribution: distribution_of::<D>(distributions[at])?,
                argument: (!is_default).then_some(argument),
                processes: processes[at],
            })
        };
        let dimensions = (0..count).map(dimension).collect::<Result<Vec<_>, Failure>>()?;
        let (size, rank) = (size.into(), rank.into());
        let order = order_of::<D>(order)?;
        self.add_type(Datatype::darray(size, rank, &dimensions, order, &old.datatype), &into)
    }

    /// MPI_Type_create_resized.
    pub fn type_create_resized(
        &self,
        old: Rc<Type>,
        lb: i64,
        extent: i64,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.add_type(Datatype::resized(lb, extent, &old.datatype), &into)
    }

    /// MPI_Type_dup.
    pub fn type_dup(&self, old: Rc<Type>, into: HandleAt<D>) -> Result<(), Failure> {
        let made = self.give_handle(self.made(Datatype::dup(&old.datatype))?, &into)?;
        let of = |it: &Type| (Object::Type, it.handle.get());
        let copied =
            self.copy_attributes((of(&old), &old.attributes), (of(&made), &made.attributes));
        copied.inspect_err(|_| {
            self.state.types.remove(made.handle.get());
            into.set_null();
        })
    }

    /// Gives one of Fortran's kinds of numbers a handle: the same for the same digits, because
    /// programs may ask again and again, and must not free it (MPI 5.0 §19.1.9).
    fn add_unnamed(&self, made: Made, into: &HandleAt<D>) -> Result<(), Failure> {
        let made = made?;
        let digits = |it: &Datatype| (it.combiner(), it.contents().integers);
        let wanted = digits(&made);
        let mut all = self.state.unnamed.borrow_mut();
        let known = all.iter().find(|known| digits(&known.datatype) == wanted);
        if let Some(known) = known {
            into.set(known.handle.get());
            return Ok(());
        }
        all.push(self.give_handle(Type::of(made), into)?);
        Ok(())
    }

    /// MPI_Type_create_f90_integer.
    pub fn type_create_f90_integer(&self, range: i32, into: HandleAt<D>) -> Result<(), Failure> {
        self.add_unnamed(Datatype::f90_integer(range.into()), &into)
    }

    /// MPI_Type_create_f90_real.
    pub fn type_create_f90_real(
        &self,
        precision: i32,
        range: i32,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.add_unnamed(Datatype::f90_real(given(precision), given(range)), &into)
    }

    /// MPI_Type_create_f90_complex.
    pub fn type_create_f90_complex(
        &self,
        precision: i32,
        range: i32,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.add_unnamed(Datatype::f90_complex(given(precision), given(range)), &into)
    }

    /// MPI_Type_match_size.
    pub fn type_match_size(&self, class: i32, size: i32, into: HandleAt<D>) -> Result<(), Failure> {
        let classes = [TypeClass::Integer, TypeClass::Real, TypeClass::Complex, TypeClass::Logical];
        let at = D::TYPE_CLASSES.iter().position(|other| *other == class);
        let at = at.ok_or_else(|| {
            Failure::argument(format!("{class} is no class of types")).named("typeclass")
        })?;
        into.set(self.handle_of(Datatype::match_size(classes[at], size.into())?)?);
        Ok(())
    }

    /// MPI_Type_get_value_index.
    pub fn type_get_value_index(
        &self,
        value: Rc<Type>,
        index: Rc<Type>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let pair = value.datatype.named().zip(index.datatype.named());
        into.set(match pair.and_then(|(value, index)| Basic::pair_of(value, index)) {
            Some(pair) => self.handle_of(pair.into())?,
            None => Handle::DATATYPE_NULL,
        });
        Ok(())
    }

    /// MPI_Type_commit.
    pub fn type_commit(&self, handle: HandleAt<D>) -> Result<(), Failure> {
        self.datatype_of(handle.get())?.commit();
        Ok(())
    }

    /// MPI_Type_free. Types that were made of it remain valid.
    pub fn type_free(&self, handle: HandleAt<D>) -> Result<(), Failure> {
        let number = handle.get();
        let datatype = self.datatype_of(number)?;
        if datatype.values().is_some() {
            return Err(Failure::new(Class::Type, "a predefined datatype cannot be freed"));
        }
        self.delete_attributes((Object::Type, number), &datatype.attributes)?;
        self.state.types.remove(number);
        handle.set_null();
        Ok(())
    }

    /// MPI_Type_size.
    pub fn type_size(&self, datatype: Rc<Type>, size: NumberAt) -> Result<(), Failure> {
        size.set(datatype.size() as i64);
        Ok(())
    }

    /// MPI_Type_size_x.
    pub fn type_size_x(&self, datatype: Rc<Type>, size: NumberAt) -> Result<(), Failure> {
        self.type_size(datatype, size)
    }

    /// MPI_Type_get_extent.
    pub fn type_get_extent(
        &self,
        datatype: Rc<Type>,
        lb: NumberAt,
        extent: NumberAt,
    ) -> Result<(), Failure> {
        lb.set(datatype.datatype.lb());
        extent.set(datatype.extent());
        Ok(())
    }

    /// MPI_Type_extent of MPI 1.
    pub fn type_extent(&self, datatype: Rc<Type>, extent: NumberAt) -> Result<(), Failure> {
        extent.set(datatype.extent());
        Ok(())
    }

    /// MPI_Type_lb of MPI 1.
    pub fn type_lb(&self, datatype: Rc<Type>, lb: NumberAt) -> Result<(), Failure> {
        lb.set(datatype.datatype.lb());
        Ok(())
    }

    /// MPI_Type_ub of MPI 1.
    pub fn type_ub(&self, datatype: Rc<Type>, ub: NumberAt) -> Result<(), Failure> {
        ub.set(datatype.datatype.lb() + datatype.extent());
        Ok(())
    }

    /// MPI_Type_get_extent_x.
    pub fn type_get_extent_x(
        &self,
        datatype: Rc<Type>,
        lb: NumberAt,
        extent: NumberAt,
    ) -> Result<(), Failure> {
        self.type_get_extent(datatype, lb, extent)
    }

    /// MPI_Type_get_true_extent.
    pub fn type_get_true_extent(
        &self,
        datatype: Rc<Type>,
        lb: NumberAt,
        extent: NumberAt,
    ) -> Result<(), Failure> {
        lb.set(datatype.datatype.true_lb());
        extent.set(datatype.datatype.true_extent());
        Ok(())
    }

    /// MPI_Type_get_true_extent_x.
    pub fn type_get_true_extent_x(
        &self,
        datatype: Rc<Type>,
        lb: NumberAt,
        extent: NumberAt,
    ) -> Result<(), Failure> {
        self.type_get_true_extent(datatype, lb, extent)
    }

    /// MPI_Type_set_name.
    pub fn type_set_name(&self, datatype: Rc<Type>, name: OsString) -> Result<(), Failure> {
        datatype.name.replace(Some(cut(&name, D::MAX_NAMES[1]).to_owned()));
        Ok(())
    }

    /// MPI_Type_get_name. A predefined type has its name from the start (MPI 5.0 §7.8).
    pub fn type_get_name(
        &self,
        handle: D::Handle,
        into: TextAt,
        length: Out<i32>,
    ) -> Result<(), Failure> {
        if D::number(Object::Type, handle) == Handle::DATATYPE_NULL {
            length.set(into.set("MPI_DATATYPE_NULL", D::MAX_NAMES[1])?);
            return Ok(());
        }
        let datatype = self.datatype(handle)?;
        let given = datatype.name.borrow();
        let first = datatype.basic().map_or("", |basic| basic.name());
        let name = given.as_deref().unwrap_or(OsStr::new(first));
        length.set(into.set(name, D::MAX_NAMES[1])?);
        Ok(())
    }

    /// MPI_Type_get_envelope.
    pub fn type_get_envelope(
        &self,
        datatype: Rc<Type>,
        integers: Out<i32>,
        addresses: Out<i32>,
        types: Out<i32>,
        combiner: Out<i32>,
    ) -> Result<(), Failure> {
        let envelope = small(&datatype)?.envelope();
        integers.set(envelope.integers as i32);
        addresses.set(envelope.addresses as i32);
        types.set(envelope.datatypes as i32);
        combiner.set(D::COMBINERS[envelope.combiner as usize]);
        Ok(())
    }

    /// MPI_Type_get_envelope_c.
    pub fn type_get_envelope_c(
        &self,
        datatype: Rc<Type>,
        integers: NumberAt,
        addresses: NumberAt,
        large_counts: NumberAt,
        types: NumberAt,
        combiner: Out<i32>,
    ) -> Result<(), Failure> {
        let envelope = datatype.datatype.envelope();
        integers.set(envelope.integers as i64);
        addresses.set(envelope.addresses as i64);
        large_counts.set(envelope.large_counts as i64);
        types.set(envelope.datatypes as i64);
        combiner.set(D::COMBINERS[envelope.combiner as usize]);
        Ok(())
    }

    /// MPI_Type_get_contents.
    #[allow(clippy::too_many_arguments)]
    pub fn type_get_contents(
        &self,
        datatype: Rc<Type>,
        most_integers: i32,
        most_addresses: i32,
        most_types: i32,
        integers: NumbersAt,
        addresses: NumbersAt,
        types: HandlesAt<D>,
    ) -> Result<(), Failure> {
        small(&datatype)?;
        let rooms = [most_integers, most_addresses, 0, most_types].map(i64::from);
        self.contents(&datatype, rooms, [integers, addresses, addresses], &types)
    }

    /// MPI_Type_get_contents_c.
    #[allow(clippy::too_many_arguments)]
    pub fn type_get_contents_c(
        &self,
        datatype: Rc<Type>,
        most_integers: i64,
        most_addresses: i64,
        most_large_counts: i64,
        most_types: i64,
        integers: NumbersAt,
        addresses: NumbersAt,
        large_counts: NumbersAt,
        types: HandlesAt<D>,
    ) -> Result<(), Failure> {
        let rooms = [most_integers, most_addresses, most_large_counts, most_types];
        self.contents(&datatype, rooms, [integers, addresses, large_counts], &types)
    }

    fn contents(
        &self,
        datatype: &Type,
        rooms: [i64; 4],
        [integers, addresses, large_counts]: [NumbersAt; 3],
        types: &HandlesAt<D>,
    ) -> Result<(), Failure> {
        if datatype.basic().is_some() {
            return Err(Failure::new(Class::Type, "a predefined datatype has no contents"));
        }
        let contents = datatype.datatype.contents();
        let lengths = [
            contents.integers.len(),
            contents.addresses.len(),
            contents.large_counts.len(),
            contents.datatypes.len(),
        ];
        if let Some(at) = (0..4).find(|at| rooms[*at] < lengths[*at] as i64) {
            let what = ["integers", "addresses", "large counts", "datatypes"][at];
            let (room, length) = (rooms[at], lengths[at]);
            let text = format!("there is room for {room} {what}, and there are {length}");
            let argument = ["integers", "addresses", "large_counts", "datatypes"][at];
            return Err(Failure::argument(text).named(&format!("max_{argument}")));
        }
        integers.check(lengths[0], "array_of_integers")?;
        addresses.check(lengths[1], "array_of_addresses")?;
        large_counts.check(lengths[2], "array_of_large_counts")?;
        types.check(lengths[3], "array_of_datatypes")?;
        let numbers = contents.integers.iter().map(|integer| integer_out::<D>(*integer));
        numbers.enumerate().for_each(|(at, number)| integers.set(at, number));
        contents.addresses.iter().enumerate().for_each(|(at, it)| addresses.set(at, *it));
        contents.large_counts.iter().enumerate().for_each(|(at, it)| large_counts.set(at, *it));
        for (at, datatype) in contents.datatypes.into_iter().enumerate() {
            types.at(at).set(self.handle_of(datatype)?);
        }
        Ok(())
    }

    /// MPI_Get_elements.
    pub fn get_elements(
        &self,
        status: Status,
        datatype: Rc<Type>,
        count: NumberAt,
    ) -> Result<(), Failure> {
        let found = datatype.datatype.elements_of(status.bytes);
        count.set(found.map_or(UNDEFINED.into(), |found| found as i64));
        Ok(())
    }

    /// MPI_Get_elements_x.
    pub fn get_elements_x(
        &self,
        status: Status,
        datatype: Rc<Type>,
        count: NumberAt,
    ) -> Result<(), Failure> {
        self.get_elements(status, datatype, count)
    }

    /// MPI_Pack.
    pub fn pack(
        &self,
        from: Elements<Rc<Type>>,
        into: Buffer,
        room: i64,
        position: NumberAt,
        _: Rc<Comm>,
    ) -> Result<(), Failure> {
        let area = from.area().map_err(|it| it.of_buffer("inbuf"))?;
        let (start, end) = window(position.get(), area.len(), length(room, "outsize")?)?;
        copy(&area.data(), &mut into.needed(end, "outbuf")?.bytes_mut(end)[start..]);
        position.set(end as i64);
        Ok(())
    }

    /// MPI_Unpack.
    pub fn unpack(
        &self,
        from: Buffer,
        room: i64,
        position: NumberAt,
        into: Elements<Rc<Type>>,
        _: Rc<Comm>,
    ) -> Result<(), Failure> {
        let area = into.area().map_err(|it| it.of_buffer("outbuf"))?;
        let (start, end) = window(position.get(), area.len(), length(room, "insize")?)?;
        area.put(&from.needed(end, "inbuf")?.bytes(end)[start..]);
        position.set(end as i64);
        Ok(())
    }

    /// MPI_Pack_size.
    pub fn pack_size(
        &self,
        count: i64,
        datatype: Rc<Type>,
        _: Rc<Comm>,
        size: NumberAt,
    ) -> Result<(), Failure> {
        size.set(datatype.bytes(count)? as i64);
        Ok(())
    }

    /// MPI_Pack_external.
    pub fn pack_external(
        &self,
        representation: OsString,
        from: Elements<Rc<Type>>,
        into: Buffer,
        room: i64,
        position: NumberAt,
    ) -> Result<(), Failure> {
        external32(&representation)?;
        let room = length(room, "outsize")?;
        let (mut at, into) = (start_of(position.get())?, into.needed(room, "outbuf")?);
        from.area().map_err(|it| it.of_buffer("inbuf"))?;
        let (count, into) = (elements(from.count)? as u64, into.bytes_mut(room));
        from.buffer.pack_external(count, &from.datatype.datatype, (into, &mut at))?;
        position.set(at as i64);
        Ok(())
    }

    /// MPI_Unpack_external.
    pub fn unpack_external(
        &self,
        representation: OsString,
        from: Buffer,
        room: i64,
        position: NumberAt,
        into: Elements<Rc<Type>>,
    ) -> Result<(), Failure> {
        external32(&representation)?;
        let room = length(room, "insize")?;
        let (mut at, from) = (start_of(position.get())?, from.needed(room, "inbuf")?);
        into.area().map_err(|it| it.of_buffer("outbuf"))?;
        let (count, from) = (elements(into.count)? as u64, from.bytes(room));
        into.buffer.unpack_external(count, &into.datatype.datatype, (from, &mut at))?;
        position.set(at as i64);
        Ok(())
    }

    /// MPI_Pack_external_size.
    pub fn pack_external_size(
        &self,
        representation: OsString,
        count: i64,
        datatype: Rc<Type>,
        size: NumberAt,
    ) -> Result<(), Failure> {
        external32(&representation)?;
        let bytes = datatype::external_size(&datatype.datatype, elements(count)? as u64)?;
        size.set(bytes as i64);
        Ok(())
    }

    /// MPI_Alloc_mem.
    pub fn alloc_mem(
        &self,
        size: i64,
        _: Option<Arc<crate::info::Info>>,
        into: Out<usize>,
    ) -> Result<(), Failure> {
        let size = length(size, "size")?.max(1).div_ceil(size_of::<u128>());
        let mut memory = Vec::<u128>::new();
        memory.try_reserve_exact(size).map_err(|error| Failure::no_memory(error.to_string()))?;
        let address = Buffer::new(memory.as_mut_ptr().cast()).address();
        self.state.memory.borrow_mut().insert(address, memory);
        into.set(address);
        Ok(())
    }

    /// MPI_Free_mem.
    pub fn free_mem(&self, memory: Buffer) -> Result<(), Failure> {
        let found = self.state.memory.borrow_mut().remove(&memory.address());
        let text = "this memory does not come from MPI_Alloc_mem, or was freed";
        found.map(drop).ok_or_else(|| Failure::new(Class::Base, text).named("base"))
    }
}

/// The lengths and displacements of `count` blocks.
fn lists(count: i64, lengths: Numbers, at: Numbers) -> Result<(Vec<i64>, Vec<i64>), Failure> {
    let count = elements(count)?;
    Ok((lengths.all(count, "array_of_blocklengths")?, at.all(count, "array_of_displacements")?))
}

/// Converts MPI_UNDEFINED to `None`.
fn given(number: i32) -> Option<i64> {
    (number != UNDEFINED).then_some(number.into())
}

fn order_of<D: Dialect>(order: i32) -> Result<Order, Failure> {
    match D::ORDERS.iter().position(|other| *other == order) {
        Some(0) => Ok(Order::C),
        Some(_) => Ok(Order::Fortran),
        None => Err(Failure::argument(format!("{order} is no order of arrays")).named("order")),
    }
}

fn distribution_of<D: Dialect>(distribution: i64) -> Result<Distribution, Failure> {
    match D::DISTRIBUTIONS.iter().position(|other| i64::from(*other) == distribution) {
        Some(0) => Ok(Distribution::None),
        Some(1) => Ok(Distribution::Block),
        Some(2) => Ok(Distribution::Cyclic),
        _ => {
            let text = format!("{distribution} is no distribution of arrays");
            Err(Failure::argument(text).named("array_of_distribs"))
        }
    }
}

/// An integer of a type's contents, with the numbers of the dialect's constants.
fn integer_out<D: Dialect>(integer: Integer) -> i64 {
    match integer {
        Integer::Number(number) => number,
        Integer::Order(Order::C) => D::ORDERS[0].into(),
        Integer::Order(Order::Fortran) => D::ORDERS[1].into(),
        Integer::Distribution(Distribution::None) => D::DISTRIBUTIONS[0].into(),
        Integer::Distribution(Distribution::Block) => D::DISTRIBUTIONS[1].into(),
        Integer::Distribution(Distribution::Cyclic) => D::DISTRIBUTIONS[2].into(),
        Integer::DefaultArgument => D::DISTRIBUTIONS[3].into(),
        Integer::Undefined => UNDEFINED.into(),
    }
}

/// A datatype that was not made with large counts, so that its counts fit an `int` query.
fn small(datatype: &Type) -> Result<&Datatype, Failure> {
    match datatype.datatype.width() {
        Width::Int => Ok(&datatype.datatype),
        Width::Large => Err(Failure::new(
            Class::Type,
            "the datatype was made with large counts: ask for them by a function that ends in _c",
        )),
    }
}

/// The start and end of a piece in a buffer.
fn window(position: i64, length: usize, room: usize) -> Result<(usize, usize), Failure> {
    let start = usize::try_from(start_of(position)?).unwrap_or(usize::MAX);
    let end = start.checked_add(length).filter(|end| *end <= room);
    let end = end.ok_or_else(|| {
        let text = format!("{length} bytes from {position} on do not fit into {room}");
        Failure::new(Class::Truncate, text).named("position")
    })?;
    Ok((start, end))
}

fn start_of(position: i64) -> Result<u64, Failure> {
    u64::try_from(position)
        .map_err(|_| Failure::argument(format!("the position {position} is negative")))
}

fn external32(representation: &OsStr) -> Result<(), Failure> {
    if representation == "external32" {
        return Ok(());
    }
    let given = representation.display();
    let text = format!("there is no representation `{given}`, only external32");
    Err(Failure::argument(text).named("datarep"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_piece_lies_within_its_buffer() {
        assert_eq!(window(3, 5, 8).unwrap(), (3, 8));
        assert_eq!(window(3, 6, 8).unwrap_err().class, Class::Truncate);
        assert_eq!(window(-1, 0, 8).unwrap_err().class, Class::Arg);
        assert!(window(i64::MAX, usize::MAX, 8).is_err());
    }
}
